"""MariaDB and PostgreSQL for an example or a test: on free ports, in a folder of their own, gone when it is over.

    python3 servers.py start FOLDER     start both; prints `export NAME=value` lines for a shell
    python3 servers.py stop FOLDER      stop what was started there

Nothing that runs on the machine already is touched. Passwords are made anew every time. Both servers refuse to work as
root, so they get the user that their package made, or `nobody`.
"""

from __future__ import annotations

import os
import pwd
import secrets
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

PATIENCE = 60.0  # seconds for a server to answer, or to be gone
_PLACES = ("/usr/sbin", "/usr/local/sbin", "/usr/libexec", "/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin")


class NotStarted(RuntimeError):
    """A server is not installed, or does not come up: with what it said."""


@dataclass(frozen=True)
class Server:
    """A server that answers on this port. `folder` holds its data, its log and its pid."""

    name: str
    folder: Path
    port: int
    user: str
    password: str
    database: str
    pid: int

    @property
    def connection(self) -> dict[str, object]:
        """What `connection:` of an action takes."""
        return {
            "host": "127.0.0.1",
            "port": self.port,
            "user": self.user,
            "password": self.password,
            "database": self.database,
        }

    def stop(self) -> None:
        stop(self.folder)


def program(*names: str) -> str:
    """The first of these programs that is installed; servers are often outside of PATH."""
    for name in names:
        if found := shutil.which(name):
            return found
        for pattern in _PLACES:
            folder, _, rest = pattern.partition("*")
            candidates = sorted(Path(folder).parent.glob(Path(folder).name + "*" + rest)) if rest else [Path(folder)]
            for candidate in reversed(candidates):
                if os.access(candidate / name, os.X_OK):
                    return str(candidate / name)
    raise NotStarted(f"`{names[0]}` is not installed")


def start_mariadb(folder: Path, database: str = "shop") -> Server:
    daemon = program("mariadbd", "mysqld")
    install = program("mariadb-install-db", "mysql_install_db")
    account, as_account = _account("mysql")
    _own(folder, account)
    data, log, socket_file = folder / "data", folder / "server.log", folder / "s.sock"
    port, password = _free_port(), secrets.token_urlsafe(18)
    # `--no-defaults` everywhere: the machine's own configuration has nothing to say here.
    # A small buffer pool and plain I/O: the defaults ask for memory and queues that a busy machine may refuse.
    # A folder of its own for temporary tables: a server that starts removes all that it finds in its `tmpdir`, so in a
    # shared one it takes those of another server that is just being set up ("Unknown table 'mysql.tmp_proxies_priv'").
    _do([install, "--no-defaults", f"--datadir={data}", "--skip-test-db", "--auth-root-authentication-method=normal",
         f"--tmpdir={folder}", "--innodb-buffer-pool-size=32M", "--innodb-use-native-aio=0"],
        log, as_account)  # fmt: skip
    script = folder / "init.sql"
    script.write_text(
        f"CREATE DATABASE `{database}` CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;\n"
        f"CREATE USER 'etl'@'127.0.0.1' IDENTIFIED BY '{password}';\n"
        f"GRANT ALL ON `{database}`.* TO 'etl'@'127.0.0.1';\n"
        f"ALTER USER 'root'@'localhost' IDENTIFIED BY '{password}';\n",
        encoding="utf-8",
    )
    _own(script, account)
    script.chmod(0o600)
    command = [
        daemon, "--no-defaults", f"--datadir={data}", f"--socket={socket_file}", f"--port={port}",
        "--bind-address=127.0.0.1", "--skip-name-resolve", f"--init-file={script}", "--character-set-server=utf8mb4",
        "--innodb-buffer-pool-size=32M", "--innodb-log-file-size=8M", "--innodb-flush-log-at-trx-commit=0",
        "--innodb-flush-method=nosync", "--innodb-use-native-aio=0", "--skip-log-bin", "--performance-schema=off",
        f"--tmpdir={folder}",
    ]  # fmt: skip
    pid = _start(command, log, as_account)
    # The port opens before the init file has been read; a greeting comes after it.
    _wait_for(port, pid, log, greets=True)
    script.unlink()
    return _noted(Server("mariadb", folder, port, "etl", password, database, pid))


def start_postgres(folder: Path, database: str = "warehouse") -> Server:
    initdb, daemon, psql = program("initdb"), program("postgres"), program("psql")
    account, as_account = _account("postgres")
    _own(folder, account)
    data, log = folder / "data", folder / "server.log"
    port, password = _free_port(), secrets.token_urlsafe(18)
    word = folder / "password"
    word.write_text(password, encoding="utf-8")
    word.chmod(0o600)
    _own(word, account)
    _do([initdb, "-D", str(data), "-U", "etl", "-A", "scram-sha-256", f"--pwfile={word}", "-E", "UTF8", "--locale=C",
         "--no-sync", "--no-instructions"], log, as_account)  # fmt: skip
    word.unlink()
    command = [daemon, "-D", str(data), "-p", str(port), "-k", str(folder), "-h", "127.0.0.1", "-c", "fsync=off",
               "-c", "shared_buffers=16MB", "-c", "max_connections=30"]  # fmt: skip
    pid = _start(command, log, as_account)
    _wait_for(port, pid, log)
    environment = {**os.environ, "PGPASSWORD": password}
    ask = [psql, "-qAt", "-h", "127.0.0.1", "-p", str(port), "-U", "etl", "-d", "postgres", "-c"]
    deadline = time.monotonic() + PATIENCE
    while True:  # the port is open a moment before the server takes connections
        made = subprocess.run([*ask, f'CREATE DATABASE "{database}"'], env=environment, capture_output=True, text=True,
                              check=False)  # fmt: skip
        if made.returncode == 0:
            return _noted(Server("postgres", folder, port, "etl", password, database, pid))
        if time.monotonic() > deadline:
            raise NotStarted(f"PostgreSQL does not answer: {made.stderr.strip()}\n{_tail(log)}")
        time.sleep(0.05)


def stop(folder: Path) -> None:
    """End the server of this folder, by its pid, and wait until it is gone."""
    note = folder / "pid"
    if not note.exists():
        return
    pid = int(note.read_text(encoding="utf-8"))
    # PostgreSQL: SIGINT is the fast shutdown; SIGTERM would wait for clients.
    number = signal.SIGINT if (folder / "data" / "PG_VERSION").exists() else signal.SIGTERM
    deadline = time.monotonic() + PATIENCE
    while _is_alive(pid):
        _signal(pid, number if time.monotonic() < deadline else signal.SIGKILL)
        for _ in range(100):
            if not _is_alive(pid):
                break
            time.sleep(0.05)
    note.unlink()


# --- processes and folders ---------------------------------------------------------------------------------------


def _account(wanted: str) -> tuple[pwd.struct_passwd | None, dict[str, object]]:
    """As whom a server runs: as we do, but never as root."""
    if os.geteuid() != 0:
        return None, {}
    for name in (wanted, "nobody"):
        try:
            found = pwd.getpwnam(name)
        except KeyError:
            continue  # the package that makes this user is not the one that is installed
        return found, {"user": found.pw_uid, "group": found.pw_gid, "extra_groups": []}
    raise NotStarted(f"servers refuse to run as root, and there is no user `{wanted}` or `nobody`")


def _own(path: Path, account: pwd.struct_passwd | None) -> None:
    if not path.exists():
        path.mkdir(parents=True)
    if account is not None:
        os.chown(path, account.pw_uid, account.pw_gid)
    if path.is_dir():
        path.chmod(0o700)


def _do(command: list[str], log: Path, as_account: dict[str, object]) -> None:
    with log.open("ab") as told:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=told, stderr=told, cwd="/", check=False,
                              **as_account)  # type: ignore[call-overload]  # fmt: skip
    if done.returncode:
        raise NotStarted(f"`{Path(command[0]).name}` ends with {done.returncode}:\n{_tail(log)}")


def _start(command: list[str], log: Path, as_account: dict[str, object]) -> int:
    with log.open("ab") as told:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=told, stderr=told, cwd="/",
                                   start_new_session=True, **as_account)  # type: ignore[call-overload]  # fmt: skip
    _STARTED[process.pid] = process
    return int(process.pid)


_STARTED: dict[int, subprocess.Popen[bytes]] = {}  # our own children have to be waited for


def _is_alive(pid: int) -> bool:
    if pid in _STARTED:
        return _STARTED[pid].poll() is None
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass  # gone in between, as it should be


def _noted(server: Server) -> Server:
    (server.folder / "pid").write_text(f"{server.pid}\n", encoding="utf-8")
    return server


def _free_port() -> int:
    """Below the ports that the system gives to connections: one of those may be taken before the server listens."""
    while True:
        port = 15_000 + secrets.randbelow(15_000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                pass  # somebody has it


def _wait_for(port: int, pid: int, log: Path, *, greets: bool = False) -> None:
    """Until the server takes connections; `greets`: and says a word."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as probe:
                if not greets or probe.recv(1):
                    return
        except OSError:
            pass  # not yet
        if not _is_alive(pid) or time.monotonic() > deadline:
            raise NotStarted(f"the server does not come up:\n{_tail(log)}")
        time.sleep(0.05)


def _tail(log: Path) -> str:
    """The errors of a log, and its end: an installer says at length where to ask for help after what went wrong."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    errors = [line for line in lines[:-15] if "ERROR" in line or "FATAL" in line]
    return "\n".join([*errors[:20], *lines[-15:]])


# --- from a shell ------------------------------------------------------------------------------------------------


def main(words: list[str]) -> int:
    if len(words) != 2 or words[0] not in ("start", "stop"):
        print(__doc__, file=sys.stderr)
        return 2
    note = Path(words[1]) / "servers"  # where they really are: sockets need short paths
    if words[0] == "stop":
        if note.exists():
            place = Path(note.read_text(encoding="utf-8").strip())
            for name in ("mariadb", "postgres"):
                stop(place / name)
            shutil.rmtree(place)
            note.unlink()
        return 0
    place = Path(tempfile.mkdtemp(prefix="etl-"))
    place.chmod(0o711)  # the servers' own users look for their folders in it
    note.parent.mkdir(parents=True, exist_ok=True)
    note.write_text(f"{place}\n", encoding="utf-8")
    try:
        found = {"SHOP": start_mariadb(place / "mariadb"), "WAREHOUSE": start_postgres(place / "postgres")}
    except NotStarted as problem:
        main(["stop", words[1]])
        print(f"error: {problem}", file=sys.stderr)
        return 1
    for prefix, server in found.items():
        print(f"export {prefix}_PORT={server.port} {prefix}_PASSWORD={shlex.quote(server.password)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
