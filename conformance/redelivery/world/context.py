"""Lambda's context object, as far as handlers and Powertools read it."""

from uuid import uuid4

from redelivery.boundary.invocation import Invocation
from redelivery.world.resources import ACCOUNT, REGION

FUNCTION = "function-under-test"
MEMORY_MB = 512


class LambdaContext:
    """The context of one invocation."""

    function_name = FUNCTION
    function_version = "$LATEST"
    invoked_function_arn = f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{FUNCTION}"
    memory_limit_in_mb = MEMORY_MB
    log_group_name = f"/aws/lambda/{FUNCTION}"
    log_stream_name = "stream"
    identity = None
    client_context = None
    tenant_id = None

    def __init__(self, invocation: Invocation) -> None:
        self._invocation = invocation
        self.aws_request_id = str(uuid4())

    def get_remaining_time_in_millis(self) -> int:
        """Return what is left until Lambda ends the function."""
        return max(int(self._invocation.seconds_left * 1000), 0)


def runtime_variables() -> dict[str, str]:
    """Return the variables that Lambda's runtime sets, and credentials that no service takes."""
    return {
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_SESSION_TOKEN": "testing",
        "AWS_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_LAMBDA_FUNCTION_NAME": FUNCTION,
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(MEMORY_MB),
        "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
        "AWS_LAMBDA_LOG_GROUP_NAME": f"/aws/lambda/{FUNCTION}",
        "AWS_LAMBDA_LOG_STREAM_NAME": "stream",
        "POWERTOOLS_TRACE_DISABLED": "1",
    }
