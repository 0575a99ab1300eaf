"""Commands: the handlers of one function, registered by decorators and checked when they load."""

import os
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from once.commands.answer import Reply
from once.commands.runner import CommandRunner, CommandRuntime
from once.errors import InvalidData, InvalidWrite, Refusal, RegistrationError
from once.events.identity import Key
from once.events.models import as_builtins
from once.intake.registration import Handler, Registered, Rejection
from once.runtime.sdk import prepare_snapshot
from once.settings import CommandSettings, Dedup
from once.transaction import Transaction

if TYPE_CHECKING:
    from once.commands.http_door import HttpDoor
    from once.commands.scope import Scope
    from once.former_records import FormerRecords

CommandT = TypeVar("CommandT")
RefusalT = TypeVar("RefusalT", bound=Refusal)
AnswerT = TypeVar("AnswerT")
Handles = Callable[[CommandT, Transaction], AnswerT]
Rejects = Callable[[CommandT, RefusalT, Transaction], AnswerT]

_SECONDS = 10.0


class Commands(Registered):
    """The commands of one function: requests whose callers wait for the answer.

    A handler fills a transaction, as one of a `Consumer` does, and returns the answer. Both commit
    together, so that each later request with the same key gets the same answer.

    Args:
        name: the first part of every dedup key, and no consumer's name. It must never change while
            records live.
    """

    def handles(
        self,
        name: str,
        model: type[CommandT],
        *,
        volatile: tuple[str, ...] = (),
        former: "FormerRecords | None" = None,
    ) -> Callable[[Handles[CommandT, AnswerT]], Handles[CommandT, AnswerT]]:
        """Register the function for a command. It returns the answer.

        An answer is an object of a model, another value that JSON can hold, or an `Answer` with a
        status and headers; None is an answer without content.

        Args:
            name: the command, such as `place-order`; part of its dedup key.
            model: the class of its data, as for events.
            volatile: fields of the data that may differ between two requests of one command.
            former: the records of the deduplication that Once replaces (docs/migrating.md).
        """

        def register(function: Handles[CommandT, AnswerT]) -> Handles[CommandT, AnswerT]:
            handler = Handler(name, model, function, Key.event(), frozenset(volatile), former)
            self._register(self.handlers, name, handler, name)
            return function

        return register

    def rejects(
        self, refusal: type[RefusalT]
    ) -> Callable[[Rejects[CommandT, RefusalT, AnswerT]], Rejects[CommandT, RefusalT, AnswerT]]:
        """Register the answer to a business refusal, such as a `Problem`. It commits as well."""

        def register(
            function: Rejects[CommandT, RefusalT, AnswerT],
        ) -> Rejects[CommandT, RefusalT, AnswerT]:
            what = getattr(refusal, "__name__", "")
            self._register(self.rejections, refusal, Rejection(refusal, function), what)
            return function

        return register

    def run(
        self, name: str, data: Any, *, key: str, scope: str, seconds: float = _SECONDS
    ) -> Reply:
        """Run a command, or return the answer that an earlier request with its key had.

        Args:
            name: the command.
            data: its data: parsed JSON, or an object of a model.
            key: the caller's key for this one command, the same in each attempt; at most 512 bytes.
            scope: whose key it is, such as a tenant. Another scope never gets the answer.
            seconds: the time for attempts after contention or without an answer of DynamoDB.

        Raises:
            KeyConflict: the key belongs to a command with other content.
            InvalidData: the data does not fit the command's model.
            NoKey, TooLarge: key or scope is missing; the key, or a write, is too large.
            UnknownType: there is no such command.
            RetryableError: it did not commit, or is not known to have. The same key may be used
                again.
            Exception: the handler's own; nothing was stored.
        """
        runner = self.runner
        deadline = runner.deadline(seconds)
        try:
            data = as_builtins(data)
        except (InvalidWrite, TypeError, ValueError, RecursionError):
            raise InvalidData(f"the data of {name} has no form in JSON") from None
        return runner.run(name, data, key=key, scope=scope, deadline=deadline)

    def http(self, routes: Mapping[str, str], *, scope: "Scope | None" = None) -> "HttpDoor":
        """Return the entry of a function behind an HTTP API, a REST API, a function URL or an ALB.

        Args:
            routes: the command of each method and path, such as `{"POST /orders": "place-order"}`.
                A part of a path in braces is a field of the command's data.
            scope: the rule that finds whose key it is.

        Raises:
            RegistrationError: the handlers or routes are inconsistent, or there is no scope.
            SettingsError: in Lambda, if settings are missing or malformed.
        """
        from once.commands.http_door import HttpDoor  # other doors do not load it

        door = HttpDoor(lambda: self.runner, routes, scope)
        if faults := [*self._registration_faults(), *door.faults(self.handlers)]:
            raise RegistrationError(faults)
        if "AWS_LAMBDA_FUNCTION_NAME" in os.environ:
            prepare_snapshot(*([s3] if (s3 := self.runner.runtime.s3) else []))
        return door

    @cached_property
    def runner(self) -> CommandRunner:
        """The runner of the deployed function. Tests replace it by that of `bound_to`.

        Raises:
            RegistrationError, SettingsError: see `http`.
        """
        return self.bound_to(CommandRuntime.of(CommandSettings.from_env()))

    def start(self) -> None:
        self.runner  # noqa: B018

    def bound_to(self, runtime: CommandRuntime) -> CommandRunner:
        """Return the runner for a given runtime.

        Raises:
            RegistrationError: handlers, tables or name differ from the runtime's settings.
        """
        settings = runtime.settings
        place = f"the declaration of {settings.consumer!r} in the CDK app"
        faults = [*self._registration_faults(), *self._deployment_faults(settings, place)]
        faults += [
            f"{name!r} is handled or declared alone; give it both, a function with @api.handles "
            f"and a place in commands= of {place}"
            for name in sorted(self.handlers.keys() ^ settings.commands)
        ]
        if not self.handlers:
            faults.append(f"{self.name} handles nothing; add a function with @api.handles")
        if settings.dedup is Dedup.ITEM:
            faults.append(f"{self.name} keeps answers in records: deploy it with Dedup.RECORD")
        if faults:
            raise RegistrationError(faults)
        return CommandRunner(self, runtime)
