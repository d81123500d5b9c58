"use strict";
(() => {
  const graph = JSON.parse(document.getElementById("graph").textContent);
  const find = (id) => document.getElementById(id);
  const picture = find("picture"), details = find("details"), box = find("find"), found = find("found");
  const cards = [...picture.querySelectorAll(".vertex")];
  const lines = [...picture.querySelectorAll(".link")];
  const labels = [...picture.querySelectorAll(".label")];
  const indexOf = new Map(graph.vertices.map((vertex, index) => [vertex.id, index]));
  const colourOf = new Map(graph.experts.map((expert) => [expert.name, expert.colour]));
  const ends = graph.links.map((link) => [indexOf.get(link.source), indexOf.get(link.target)]);
  const at = graph.vertices.map((_, index) => ends.flatMap((pair, link) => (pair.includes(index) ? [link] : [])));
  const state = { vertex: null, link: null, query: "", expert: null, critical: false, theme: null };

  // View: the part of the picture that is seen, as the viewBox.
  const whole = picture.getAttribute("viewBox").split(" ").map(Number);
  let view = { x: whole[0], y: whole[1], w: whole[2], h: whole[3] };
  let moved = false;

  function show(next) {
    const ratio = picture.clientWidth / Math.max(1, picture.clientHeight) || 1;
    const w = Math.max(next.w, next.h * ratio), h = w / ratio;
    view = { x: next.x - (w - next.w) / 2, y: next.y - (h - next.h) / 2, w, h };
    picture.setAttribute("viewBox", [view.x, view.y, view.w, view.h].map((v) => v.toFixed(2)).join(" "));
  }
  function fit() {
    const floor = Math.min(1, 60 / Math.max(1, picture.clientHeight)) * whole[3] * 0.5; // room for the legend
    show({ x: whole[0], y: whole[1], w: whole[2], h: whole[3] + floor });
    moved = false;
  }
  function zoom(factor, x = view.x + view.w / 2, y = view.y + view.h / 2) {
    const w = Math.min(Math.max(view.w * factor, 120), Math.max(whole[2], whole[3]) * 6);
    const real = w / view.w;
    show({ x: x - (x - view.x) * real, y: y - (y - view.y) * real, w, h: view.h * real });
    moved = true;
  }
  function pan(right, down) {
    show({ ...view, x: view.x + right, y: view.y + down });
    moved = true;
  }
  function point(event) {
    const matrix = picture.getScreenCTM().inverse();
    return new DOMPoint(event.clientX, event.clientY).matrixTransform(matrix);
  }
  function reveal(element) {
    const seen = element.getBoundingClientRect(), frame = picture.getBoundingClientRect();
    const inside = seen.left >= frame.left && seen.right <= frame.right && seen.top >= frame.top && seen.bottom <= frame.bottom;
    if (inside && seen.height > 26) return;
    const scale = view.w / picture.clientWidth;
    const x = view.x + (seen.left + seen.width / 2 - frame.left) * scale;
    const y = view.y + (seen.top + seen.height / 2 - frame.top) * scale;
    const w = seen.height > 26 ? view.w : Math.min(view.w, 900), h = (w * view.h) / view.w;
    show({ x: x - w / 2, y: y - h / 2, w, h });
    moved = true;
  }

  // Pointers: one drags, two pinch. A press that does not move is a click.
  const pointers = new Map();
  let travelled = 0;
  picture.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    pointers.set(event.pointerId, [event.clientX, event.clientY]);
    travelled = 0;
  });
  picture.addEventListener("pointermove", (event) => {
    const before = pointers.get(event.pointerId);
    if (!before) return;
    const scale = view.w / picture.clientWidth;
    if (pointers.size === 2) {
      const other = [...pointers].find(([id]) => id !== event.pointerId)[1];
      const gap = (p) => Math.hypot(p[0] - other[0], p[1] - other[1]);
      const middle = point({ clientX: (event.clientX + other[0]) / 2, clientY: (event.clientY + other[1]) / 2 });
      zoom(gap(before) / Math.max(1, gap([event.clientX, event.clientY])), middle.x, middle.y);
    } else {
      const dx = event.clientX - before[0], dy = event.clientY - before[1];
      travelled += Math.abs(dx) + Math.abs(dy);
      if (travelled > 4) {
        if (!picture.hasPointerCapture(event.pointerId)) picture.setPointerCapture(event.pointerId);
        picture.classList.add("held");
        pan(-dx * scale, -dy * scale);
      }
    }
    pointers.set(event.pointerId, [event.clientX, event.clientY]);
  });
  for (const kind of ["pointerup", "pointercancel"]) {
    picture.addEventListener(kind, (event) => {
      pointers.delete(event.pointerId);
      picture.classList.remove("held");
      setTimeout(() => { travelled = 0; }); // after the click that this release may be
    });
  }
  picture.addEventListener("wheel", (event) => {
    event.preventDefault();
    const { x, y } = point(event);
    const unit = event.deltaMode === 1 ? 16 : 1;
    zoom(Math.exp(Math.max(-60, Math.min(60, event.deltaY * unit)) * 0.0035), x, y);
  }, { passive: false });

  // Elements of the side panel; text is always text.
  function make(tag, classes, ...children) {
    const element = document.createElement(tag);
    if (classes) element.className = classes;
    element.append(...children.filter((child) => child !== null));
    return element;
  }
  function button(classes, action, ...children) {
    const element = make("button", classes, ...children);
    element.type = "button";
    element.addEventListener("click", action);
    return element;
  }
  const scope = (expert) => (colourOf.has(expert) ? `c${colourOf.get(expert)}` : "plain");
  const dot = (expert) => make("span", scope(expert), make("span", "dot"));
  const heading = (text) => make("h3", "", text);
  function table(facts) {
    return make("dl", "", ...facts.flatMap((fact) => [make("dt", "", fact.name), make("dd", "", fact.value)]));
  }
  function toPlace(place) {
    if (place.line === 0) return null; // the schedule came without its map
    const name = place.file.split(/[\\/]/).pop();
    return button("go", () => showSource(place), `${name}:${place.line}`);
  }
  function ports(title, sockets, links, far) {
    if (sockets.length === 0) return [];
    const rows = sockets.map((socket) => {
      const own = links.filter((link) => graph.links[link][far === 0 ? "target_port" : "source_port"] === socket.name);
      const others = own.map((link) => button("go", () => selectLink(link), `${far === 0 ? "from" : "to"} ${graph.vertices[ends[link][far]].name}`));
      return make("li", "", make("span", "link-name", socket.name || "value"), make("code", "", socket.type), ...others);
    });
    return [heading(title), make("ul", "rows", ...rows)];
  }
  function showVertex(index) {
    const vertex = graph.vertices[index];
    const incoming = at[index].filter((link) => ends[link][1] === index), outgoing = at[index].filter((link) => ends[link][0] === index);
    details.replaceChildren(
      make("h2", scope(vertex.expert), make("span", "dot"), vertex.name, make("span", "badge", vertex.kind)),
      make("p", "", vertex.detail, vertex.critical ? " · on the critical path" : ""),
      make("p", "", toPlace(vertex.place)),
      table(vertex.facts),
      ...ports("Reads", vertex.inputs, incoming, 0),
      ...ports("Writes", vertex.outputs, outgoing, 1),
    );
  }
  function showLink(index) {
    const link = graph.links[index];
    const end = (place) => button("go", () => selectVertex(ends[index][place]), graph.vertices[ends[index][place]].name);
    details.replaceChildren(
      make("h2", "plain", make("span", "link-name", graph.names[index])),
      make("p", "", link.streams ? "stream of chunks" : "finished value", link.back ? ", back edge" : "", link.critical ? " · on the critical path" : ""),
      make("p", "", toPlace(link.place)),
      table(link.facts),
      heading("Ends"),
      make("ul", "rows", make("li", "", "from ", end(0)), make("li", "", "to ", end(1))),
    );
  }
  function showOverview() {
    const experts = graph.experts.map((expert) => {
      const row = button("expert", () => pick({ expert: state.expert === expert.name ? null : expert.name }), dot(expert.name), expert.name, make("code", "", expert.use));
      row.title = expert.facts.map((fact) => `${fact.name}: ${fact.value}`).join("\n");
      row.setAttribute("aria-pressed", String(state.expert === expert.name));
      return make("li", "", row);
    });
    details.replaceChildren(
      make("h2", "", graph.program),
      table(graph.facts),
      ...(experts.length ? [heading("Experts"), make("ul", "rows", ...experts)] : []),
      make("p", "keys", "drag or arrows move · wheel, + and − zoom · 0 fits · / searches · c critical path · t theme · Esc clears"),
    );
  }

  // Sources.
  const files = [...document.querySelectorAll(".file")];
  const tabs = [...document.querySelectorAll(".tabs button")];
  const fileOf = new Map(files.map((file, index) => [file.dataset.name, index]));
  const named = new Map();
  graph.links.forEach((link, index) => named.set(`${link.place.file}\n${link.place.line}`, () => selectLink(index)));
  graph.vertices.forEach((vertex, index) => named.set(`${vertex.place.file}\n${vertex.place.line}`, () => selectVertex(index)));
  function openFile(index) {
    files.forEach((file, other) => { file.hidden = other !== index; });
    tabs.forEach((tab, other) => {
      tab.setAttribute("aria-selected", String(other === index));
      tab.tabIndex = other === index ? 0 : -1;
    });
  }
  function showSource(place) {
    document.querySelectorAll("li.shown").forEach((line) => line.classList.remove("shown"));
    const index = place ? fileOf.get(place.file) : undefined;
    if (index === undefined) return;
    openFile(index);
    const line = files[index].querySelectorAll("li")[place.line - 1];
    if (!line) return;
    line.classList.add("shown");
    const top = line.offsetTop - files[index].offsetTop;
    files[index].scrollTop = top - files[index].clientHeight / 2;
  }
  tabs.forEach((tab, index) => {
    tab.addEventListener("click", () => openFile(index));
    tab.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      event.stopPropagation();
      const next = (index + step + tabs.length) % tabs.length;
      openFile(next);
      tabs[next].focus();
    });
  });
  files.forEach((file) => [...file.querySelectorAll("li")].forEach((line, index) => {
    const action = named.get(`${file.dataset.name}\n${index + 1}`);
    if (!action) return;
    line.classList.add("named");
    line.addEventListener("click", action);
  }));

  // What is chosen, searched and shown.
  const mark = (elements, name, test) => elements.forEach((element, index) => element.classList.toggle(name, test(index)));
  function matches() {
    const words = state.query.toLowerCase().split(/\s+/).filter(Boolean);
    const has = (text) => words.every((word) => text.toLowerCase().includes(word));
    const vertices = new Set(), links = new Set();
    graph.vertices.forEach((vertex, index) => {
      const names = [...vertex.inputs, ...vertex.outputs].map((socket) => socket.name);
      const text = [vertex.id, vertex.detail, vertex.inner?.name ?? "", ...vertex.units, ...names].join(" ");
      const wanted = (!state.expert || [vertex.expert, vertex.inner?.expert].includes(state.expert)) && (!state.critical || vertex.critical);
      if (wanted && has(text)) vertices.add(index);
    });
    graph.links.forEach((link, index) => {
      const both = ends[index].every((end) => vertices.has(end));
      const own = words.length > 0 && !state.expert && has(`${graph.names[index]} ${link.type} ${link.policy}`);
      if ((both && (!state.critical || link.critical)) || (own && !state.critical)) links.add(index);
    });
    return { vertices, links };
  }
  function refresh() {
    const filtering = Boolean(state.query.trim() || state.expert || state.critical);
    const hits = filtering ? matches() : { vertices: new Set(), links: new Set() };
    picture.classList.toggle("dimming", filtering);
    mark(cards, "hit", (index) => hits.vertices.has(index));
    mark(lines, "hit", (index) => hits.links.has(index));
    mark(labels, "hit", (index) => hits.links.has(index));
    mark(cards, "chosen", (index) => index === state.vertex);
    const chosen = (index) => index === state.link || (state.vertex !== null && at[state.vertex].includes(index));
    mark(lines, "chosen", chosen);
    mark(labels, "chosen", chosen);
    found.textContent = state.query.trim() ? `${hits.vertices.size} of ${cards.length}` : "";
    find("critical").setAttribute("aria-pressed", String(state.critical));
    if (state.vertex !== null) showVertex(state.vertex);
    else if (state.link !== null) showLink(state.link);
    else showOverview();
    write();
    return hits;
  }
  function pick(change) {
    Object.assign(state, change);
    return refresh();
  }
  function selectVertex(index) {
    pick({ vertex: index, link: null });
    showSource(graph.vertices[index].place);
    reveal(cards[index]);
  }
  function selectLink(index) {
    pick({ vertex: null, link: index });
    showSource(graph.links[index].place);
    reveal(labels[index]);
  }
  function clear() {
    box.value = "";
    pick({ vertex: null, link: null, query: "", expert: null, critical: false });
    showSource(null);
  }
  function near(vertex, link) {
    const around = vertex === null ? (link === null ? [] : [link]) : at[vertex];
    const touched = new Set(around.flatMap((one) => ends[one]));
    mark(cards, "near", (index) => touched.has(index));
    mark(lines, "near", (index) => around.includes(index));
    mark(labels, "near", (index) => around.includes(index));
  }
  function wire(element, name, onSelect, onNear) {
    const tip = element.querySelector("title");
    element.setAttribute("tabindex", "0");
    element.setAttribute("role", "button");
    element.setAttribute("aria-label", tip ? tip.textContent.split("\n").slice(0, 2).join(", ") : name);
    element.addEventListener("click", (event) => { event.stopPropagation(); if (travelled <= 4) onSelect(); });
    element.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      onSelect();
    });
    for (const kind of ["pointerenter", "focus"]) element.addEventListener(kind, onNear);
    for (const kind of ["pointerleave", "blur"]) element.addEventListener(kind, () => near(null, null));
  }
  cards.forEach((card, index) => wire(card, graph.vertices[index].name, () => selectVertex(index), () => near(index, null)));
  labels.forEach((label, index) => wire(label, graph.names[index], () => selectLink(index), () => near(null, index)));
  lines.forEach((line, index) => {
    line.addEventListener("click", (event) => { event.stopPropagation(); if (travelled <= 4) selectLink(index); });
    line.addEventListener("pointerenter", () => near(null, index));
    line.addEventListener("pointerleave", () => near(null, null));
  });
  picture.addEventListener("click", () => { if (travelled <= 4) pick({ vertex: null, link: null }); });

  // Tools and keys.
  function toggleTheme() {
    const dark = state.theme ? state.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    setTheme(dark ? "light" : "dark");
    write();
  }
  function setTheme(theme) {
    state.theme = theme;
    if (theme) document.documentElement.dataset.theme = theme;
    else delete document.documentElement.dataset.theme;
  }
  const toggleCritical = () => pick({ critical: !state.critical });
  find("in").addEventListener("click", () => zoom(0.8));
  find("out").addEventListener("click", () => zoom(1.25));
  find("fit").addEventListener("click", fit);
  find("critical").addEventListener("click", toggleCritical);
  find("critical").hidden = !graph.vertices.some((vertex) => vertex.critical);
  find("theme").addEventListener("click", toggleTheme);
  box.addEventListener("input", () => pick({ query: box.value }));
  box.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    const hits = [...matches().vertices];
    if (hits.length === 0) return;
    const here = hits.indexOf(state.vertex), step = event.shiftKey ? -1 : 1;
    selectVertex(hits[here < 0 ? 0 : (here + step + hits.length) % hits.length]);
  });
  const keys = {
    "+": () => zoom(0.8), "=": () => zoom(0.8), "-": () => zoom(1.25), 0: fit, f: fit, c: toggleCritical, t: toggleTheme,
    "/": () => box.focus(),
    ArrowLeft: () => pan(-view.w / 12, 0), ArrowRight: () => pan(view.w / 12, 0),
    ArrowUp: () => pan(0, -view.h / 12), ArrowDown: () => pan(0, view.h / 12),
  };
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") { clear(); if (document.activeElement === box) box.blur(); return; }
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, #details, .file")) return;
    const action = keys[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  });
  addEventListener("resize", () => (moved ? show(view) : fit()));
  let kept = null;
  addEventListener("beforeprint", () => { kept = view; picture.setAttribute("viewBox", whole.join(" ")); });
  addEventListener("afterprint", () => { if (kept) show(kept); });

  // The address keeps the state: #node=think&theme=dark&q=audio
  function write() {
    const words = new URLSearchParams();
    if (state.vertex !== null) words.set("node", graph.vertices[state.vertex].id.replace(/^node:/, ""));
    if (state.link !== null) words.set("edge", graph.names[state.link]);
    if (state.query) words.set("q", state.query);
    if (state.expert) words.set("expert", state.expert);
    if (state.critical) words.set("critical", "1");
    if (state.theme) words.set("theme", state.theme);
    try { history.replaceState(null, "", `#${words}`); } catch { /* a sandboxed page has no address to keep */ }
  }
  function read() {
    const words = new URLSearchParams(location.hash.slice(1));
    const wanted = words.get("node"), edge = words.get("edge"), theme = words.get("theme");
    setTheme(theme === "dark" || theme === "light" ? theme : null);
    Object.assign(state, { vertex: null, link: null, query: words.get("q") || "", critical: words.get("critical") === "1" });
    state.expert = colourOf.has(words.get("expert")) ? words.get("expert") : null;
    box.value = state.query;
    const vertex = indexOf.get(`node:${wanted}`) ?? indexOf.get(wanted);
    const link = graph.names.indexOf(edge);
    if (vertex !== undefined) selectVertex(vertex);
    else if (link >= 0) selectLink(link);
    else { refresh(); showSource(null); }
  }
  document.documentElement.classList.add("scripted");
  find("source").hidden = files.length === 0;
  if (files.length) openFile(0);
  fit();
  read();
  addEventListener("hashchange", read);
})();
