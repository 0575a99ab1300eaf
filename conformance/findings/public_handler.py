"""A public handler: where its code is, and the subject of its check."""

from collections.abc import Sequence
from dataclasses import dataclass

from redelivery import Subject


@dataclass(frozen=True, slots=True)
class PublicHandler:
    """A handler in a public repository.

    Attributes:
        name: its name in the table, unique.
        repository: `owner/name` at GitHub.
        commit: the full hash.
        path: the handler's file, in the repository.
        licence: the repository's licence, as SPDX names it.
        package: files and folders that its deployment packs together. A folder that is a Python
            package is packed as one; of another folder, its content is packed.
        subject: what to check. Its root is filled in by the run.
    """

    name: str
    repository: str
    commit: str
    path: str
    licence: str
    package: Sequence[str]
    subject: Subject

    @property
    def clone(self) -> str:
        """The name of the folder that `git clone` makes."""
        return self.repository.partition("/")[2]

    @property
    def url(self) -> str:
        """The page of the handler's file at its commit."""
        return f"https://github.com/{self.repository}/blob/{self.commit}/{self.path}"
