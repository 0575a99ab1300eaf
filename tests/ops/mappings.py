"""Lambda's event source mappings, for commands that read, disable and enable them."""

import json
from typing import Any

from tests.ops.support import OK, answer_with

QUEUE, ISOLATION, OTHER = (digit * 36 for digit in "123")
MAPPINGS = {QUEUE: "once-orders", ISOLATION: "once-orders", OTHER: "once-inventory"}


class Lambda:
    """Event source mappings. A change takes until the next but one list of them."""

    def __init__(self) -> None:
        self.states = dict.fromkeys(MAPPINGS, "Enabled")
        self.refusals: list[Any] = []
        answer_with("lambda.ListEventSourceMappings", self._list)
        answer_with("lambda.UpdateEventSourceMapping", self._update)

    def _list(self, _: Any) -> Any:
        arn = "arn:aws:lambda:us-east-1:123456789012:function"
        found = [
            {"UUID": uuid, "FunctionArn": f"{arn}:{name}:live", "State": self.states[uuid]}
            for uuid, name in MAPPINGS.items()
        ]
        ends = {"Disabling": "Disabled", "Enabling": "Enabled"}
        self.states = {uuid: ends.get(now, now) for uuid, now in self.states.items()}
        return OK, {"EventSourceMappings": found}

    def _update(self, params: Any) -> Any:
        if self.refusals:
            return self.refusals.pop()
        enabled = json.loads(params["body"])["Enabled"]
        uuid = params["url_path"].rpartition("/")[2]
        self.states[uuid] = "Enabling" if enabled else "Disabling"
        return OK, {}
