"""Errors as HTTP tells them: a status and `{"error": {"message", "type"}}`, one line that says what to do."""

from __future__ import annotations

import logging
from http import HTTPStatus

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from omniflow.errors import BusyError, InputError
from omniflow.request import Result, State

LOG = logging.getLogger("omniflow.server")
RETRY_SECONDS = 1
CLIENT_LEFT = 499
STATUS = {State.DONE: 200, State.REFUSED: 422, State.FAILED: 500, State.CANCELLED: 504}  # only deadlines cancel


class Gone(Exception):
    """What a client names is not there (any more); the message says what."""


class Left(Exception):
    """The client has left; nobody reads the answer."""


class Undone(Exception):
    """A request has ended and is not done."""

    def __init__(self, result: Result) -> None:
        self.result = result
        self.message = result.error or f"the request was {result.state}"
        super().__init__(self.message)


def error_body(status: int, message: str) -> JSONResponse:
    """An error as every one is told."""
    kind = HTTPStatus(status).phrase.lower().replace(" ", "_")
    message = message.encode(errors="backslashreplace").decode()  # names that a client gave may be no UTF-8
    headers = {"retry-after": str(RETRY_SECONDS)} if status == HTTPStatus.TOO_MANY_REQUESTS else None
    return JSONResponse({"error": {"message": message, "type": kind}}, status_code=status, headers=headers)


def done(result: Result) -> Result:
    """The same result. Errors: Undone."""
    if result.state is not State.DONE:
        raise Undone(result)
    return result


def error_in(result: Result) -> dict[str, object]:
    """The error of a request that is not done, for streams, whose status has been sent."""
    return {"error": {"message": Undone(result).message, "type": str(result.state)}}


def add_problems(app: FastAPI) -> None:
    """Teaches the application what each exception means."""

    @app.exception_handler(InputError)
    async def _input(_request: Request, error: InputError) -> JSONResponse:
        return error_body(422, str(error))

    @app.exception_handler(BusyError)
    async def _busy(_request: Request, error: BusyError) -> JSONResponse:
        return error_body(429, str(error))

    @app.exception_handler(Gone)
    async def _gone(_request: Request, error: Gone) -> JSONResponse:
        return error_body(404, str(error))

    @app.exception_handler(Undone)
    async def _undone(_request: Request, error: Undone) -> JSONResponse:
        return error_body(STATUS[error.result.state], error.message)

    @app.exception_handler(Left)
    async def _left(_request: Request, _error: Left) -> Response:
        return Response(status_code=CLIENT_LEFT)

    @app.exception_handler(RequestValidationError)
    async def _form(_request: Request, error: RequestValidationError) -> JSONResponse:
        return error_body(422, "; ".join(_sentence(each) for each in error.errors()))

    @app.exception_handler(HTTPException)
    async def _http(_request: Request, error: HTTPException) -> JSONResponse:
        return error_body(error.status_code, str(error.detail).lower())

    @app.exception_handler(Exception)
    async def _bug(_request: Request, error: Exception) -> JSONResponse:
        LOG.error("a bug of omniflow", exc_info=error)
        return error_body(500, "a bug of the server; its log has the details")


def _sentence(found: dict[str, object]) -> str:
    """One of pydantic's findings: where and what."""
    if found["type"] == "json_invalid":
        return "the body is not JSON"
    place = found["loc"]
    names = [str(part) for part in place if part != "body"] if isinstance(place, tuple) else []
    return f"{'.'.join(names) or 'the body'}: {str(found['msg']).lower()}"
