"""Update of functions' code without CloudFormation: new code, a version of it, the alias moved."""

import hashlib
import io
import json
import subprocess
import warnings
import zipfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from botocore.config import Config
from botocore.exceptions import ReadTimeoutError

from emulator.connection import Connection
from emulator.server import PROBE

ALIAS = "live"
_TASK = "/var/task"
_LOAD_SECONDS = 60


@dataclass(frozen=True, slots=True)
class DeployedCode:
    """The package of a function that CloudFormation deployed."""

    function: str
    key: str


def deployed_code(aws: Connection, stacks: list[str]) -> list[DeployedCode]:
    """Return the packages of the functions of these stacks."""
    cloudformation, found = aws.client("cloudformation"), []
    for stack in stacks:
        body = cloudformation.get_template(StackName=stack)["TemplateBody"]
        template = json.loads(body) if isinstance(body, str) else body
        for resource in template["Resources"].values():
            if resource["Type"] == "AWS::Lambda::Function":
                properties = resource["Properties"]
                name, key = properties.get("FunctionName"), properties["Code"].get("S3Key")
                if isinstance(name, str) and isinstance(key, str):
                    found.append(DeployedCode(name, key))
    return found


def update_code(aws: Connection, packages: Mapping[DeployedCode, Mapping[str, Path]]) -> list[str]:
    """Let the alias of each function point to a version with other files in its package.

    Args:
        aws: the embedded AWS.
        packages: for each function the files that replace or extend those of its deployed package,
            by their path in it; without any, the deployed package itself.

    Returns:
        The functions' names.
    """
    s3, client = aws.client("s3"), aws.client("lambda")
    bucket = f"cdk-hnb659fds-assets-{aws.account}-{aws.region}"

    def update(code: DeployedCode, files: Mapping[str, Path]) -> str:
        key = _with_files(s3, bucket, code.key, files) if files else code.key
        client.update_function_code(FunctionName=code.function, S3Bucket=bucket, S3Key=key)
        version = client.publish_version(FunctionName=code.function)["Version"]
        client.update_alias(FunctionName=code.function, Name=ALIAS, FunctionVersion=version)
        return code.function

    with ThreadPoolExecutor(4) as pool:
        return sorted(pool.map(lambda each: update(*each), packages.items()))


def load_functions(aws: Connection, codes: list[DeployedCode]) -> dict[str, str]:
    """Load each function, without a call of its handler.

    Returns:
        The error of each function that cannot start.
    """
    options = Config(read_timeout=_LOAD_SECONDS, retries={"total_max_attempts": 1})
    client = aws.client("lambda", config=options)

    def load(code: DeployedCode) -> str | None:
        call = {"FunctionName": code.function, "Payload": json.dumps(PROBE)}
        try:
            try:
                answer = client.invoke(**call, Qualifier=ALIAS)
            except client.exceptions.ResourceNotFoundException:  # a function of the app's own
                answer = client.invoke(**call)
        except ReadTimeoutError:
            return f"it does not load within {_LOAD_SECONDS} s"
        error = json.loads(answer["Payload"].read()) if "FunctionError" in answer else None
        return error and str(error["errorMessage"])

    with ThreadPoolExecutor(4) as pool:
        errors = zip(codes, pool.map(load, codes), strict=True)
        return {code.function: error for code, error in errors if error}


def _with_files(s3: Any, bucket: str, key: str, files: Mapping[str, Path]) -> str:
    """Store a package with these files added; return its key. The last of equal names counts."""
    package = io.BytesIO(s3.get_object(Bucket=bucket, Key=key)["Body"].read())
    with (
        TemporaryDirectory() as folder,
        warnings.catch_warnings(),
        zipfile.ZipFile(package, "a", zipfile.ZIP_DEFLATED) as archive,
    ):
        warnings.simplefilter("ignore", UserWarning)  # of a name that is there already
        for name, path in files.items():
            (Path(folder) / name).parent.mkdir(parents=True, exist_ok=True)
            (Path(folder) / name).write_bytes(path.read_bytes())
        # Compile as the deployed package was: Python would take its older bytecode for the module.
        python = (archive.read(".python").decode(), "-I", "-S", "-m", "compileall", "-qq")
        mode = ("--invalidation-mode", "unchecked-hash")
        subprocess.run([*python, *mode, "-s", folder, "-p", _TASK, folder], check=True)
        for path in sorted(Path(folder).rglob("*.py*")):
            entry = zipfile.ZipInfo(path.relative_to(folder).as_posix())
            entry.external_attr = 0o644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, path.read_bytes())
    content = package.getvalue()
    changed = f"local/{hashlib.sha256(content).hexdigest()}.zip"
    s3.put_object(Bucket=bucket, Key=changed, Body=content)
    return changed
