"""The supervisor as a person meets it: real PostgreSQL, real Valkey, real signals."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
import redis

from infra.local.folder import ROOT, Folder, is_free
from infra.local.postgres import Postgres
from infra.local.process import Process, find_marked
from infra.local.state import PartState
from tests.infra.local.conftest import Farm, hold, wait_until


class TestUp:
    def test_both_services_answer_and_the_address_is_told(self, farm: Farm) -> None:
        answer = farm.up()

        assert farm.report.address in answer.text
        assert farm.query("SELECT 1", role="FARM_DATABASE_URL") == [(1,)]
        assert farm.broker().ping()
        assert farm.ask("status").status == 0

    def test_a_second_up_says_that_it_already_runs_and_where(self, running: Farm) -> None:
        before = running.report.supervisor

        answer = running.up()

        assert answer.text == f"Farmhand already runs: {running.report.address}\n"
        assert running.report.supervisor == before

    def test_services_move_when_somebody_took_their_ports_meanwhile(self, farm: Farm) -> None:
        farm.up()
        farm.query("CREATE TABLE kept AS SELECT 7 AS n")
        farm.ask("down")
        old = farm.folder.known_port("postgres")

        with hold(old):
            farm.up()

            assert farm.folder.known_port("postgres") != old
            assert farm.query("SELECT n FROM kept") == [(7,)]

    def test_an_external_service_is_not_started_but_passed_on(self, farm: Farm) -> None:
        elsewhere = "postgresql://farm@db.example/farm"

        farm.up(FARM_DATABASE_URL=elsewhere)

        assert [part.name for part in farm.report.parts] == ["valkey"]
        assert f"FARM_DATABASE_URL={elsewhere}" in farm.ask("env").text

    def test_a_shell_that_took_over_the_variables_makes_no_service_external(self, farm: Farm) -> None:
        farm.up()
        variables = dict(line.split("=", 1) for line in farm.ask("env").text.replace("export ", "").splitlines())
        farm.ask("down")

        farm.up(FARM_DATABASE_URL=variables["FARM_DATABASE_URL"], FARM_EMBEDDED="storage database broker")

        assert [part.name for part in farm.report.parts] == ["postgres", "valkey"]

    def test_a_part_that_does_not_start_is_named_with_its_last_words_and_nothing_stays(self, farm: Farm) -> None:
        farm.up()
        farm.ask("down")
        (farm.folder.path / "postgres/postgresql.conf").write_text("nonsense = 1\n")

        answer = farm.ask("up", "--only", "services")

        assert answer.status == 1
        assert "postgres does not start" in answer.text
        assert "nonsense" in answer.text
        assert list(find_marked(farm.folder.marker)) == []
        assert not farm.folder.is_supervised()

    def test_files_belong_to_whoever_starts_it(self, running: Farm) -> None:
        paths = [running.folder.path, *running.folder.path.iterdir(), *(running.folder.path / "postgres").iterdir()]

        assert {path.stat().st_uid for path in paths} == {os.geteuid()}

    def test_passwords_are_for_the_owner_alone(self, running: Farm) -> None:
        private = ["secrets.json", "environment.json", "valkey/users.acl", "valkey/valkey.conf"]

        assert {(running.folder.path / name).stat().st_mode & 0o777 for name in private} == {0o600}


class TestRoles:
    def test_the_farm_is_no_superuser_and_passes_no_row_level_security(self, running: Farm) -> None:
        rights = running.query(
            "SELECT rolname, rolsuper, rolbypassrls, rolcreatedb, rolcreaterole FROM pg_roles"
            " WHERE rolname IN ('farm', 'farm_owner') ORDER BY 1"
        )

        assert rights == [("farm", False, False, False, False), ("farm_owner", False, False, True, True)]

    def test_the_owner_owns_the_database_and_may_make_roles_for_the_farm(self, running: Farm) -> None:
        running.query("CREATE ROLE some_tenant NOLOGIN; GRANT some_tenant TO farm")

        assert running.query("SELECT pg_get_userbyid(datdba) FROM pg_database WHERE datname = 'farm'") == [
            ("farm_owner",)
        ]
        assert running.query("SELECT pg_has_role('farm', 'some_tenant', 'SET')") == [(True,)]

    def test_a_wrong_password_is_refused(self, running: Farm) -> None:
        port = running.folder.known_port("postgres")

        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            psycopg.connect(f"postgresql://farm:guess@127.0.0.1:{port}/farm")

    def test_a_worker_may_pop_its_queue_and_nothing_else(self, running: Farm) -> None:
        running.broker().lpush("worker.1", "attempts")
        worker = running.broker("FARM_WORKER_BROKER_URL")

        assert worker.rpop("worker.1") == b"attempts"
        for forbidden in (
            lambda: worker.lpush("worker.1", "x"),
            lambda: worker.rpop("celery"),
            lambda: worker.keys("*"),
            lambda: worker.publish("worker.1", "x"),
        ):
            with pytest.raises(redis.exceptions.NoPermissionError):
                forbidden()


class TestKilledPart:
    def test_postgres_is_back_in_seconds_with_what_was_committed(self, farm: Farm) -> None:
        farm.up()
        farm.query("CREATE TABLE kept AS SELECT generate_series(1, 1000) AS n")

        killed = farm.kill("postgres")

        wait_until(lambda: farm.part("postgres").state is PartState.READY and farm.part("postgres").process != killed)
        assert farm.query("SELECT count(*) FROM kept") == [(1000,)]
        assert farm.part("postgres").restarts == 1

    def test_valkey_is_back_in_seconds_with_what_was_flushed(self, farm: Farm) -> None:
        farm.up()
        farm.broker().lpush("worker.1", "attempts")
        farm.broker().waitaof(1, 0, 5000)

        killed = farm.kill("valkey")

        wait_until(lambda: farm.part("valkey").state is PartState.READY and farm.part("valkey").process != killed)
        assert farm.broker().lrange("worker.1", 0, -1) == [b"attempts"]


class TestKilledSupervisor:
    def test_its_parts_die_with_it_and_the_next_up_finds_everything(self, farm: Farm) -> None:
        farm.up()
        farm.query("CREATE TABLE kept AS SELECT 7 AS n")
        old = [part.process for part in farm.report.parts]

        farm.report.supervisor.send(signal.SIGKILL)

        wait_until(lambda: not any(process.is_alive() for process in old))
        farm.up()
        assert farm.query("SELECT n FROM kept") == [(7,)]

    def test_a_part_that_could_not_hear_is_ended_by_the_next_up(self, farm: Farm) -> None:
        farm.up()
        paused = farm.part("valkey").process
        paused.send(signal.SIGSTOP)
        farm.report.supervisor.send(signal.SIGKILL)
        wait_until(lambda: not farm.folder.is_supervised())
        assert paused.is_alive()

        farm.up()

        assert not paused.is_alive()
        assert farm.broker().ping()

    def test_down_ends_what_it_left(self, farm: Farm) -> None:
        farm.up()
        paused = farm.part("valkey").process
        paused.send(signal.SIGSTOP)
        farm.report.supervisor.send(signal.SIGKILL)
        wait_until(lambda: not farm.folder.is_supervised())

        answer = farm.ask("down")

        assert "had left" in answer.text
        assert list(find_marked(farm.folder.marker)) == []

    def test_a_foreign_process_with_the_number_in_the_pid_file_is_left_alone(self, farm: Farm) -> None:
        farm.up()
        farm.ask("down")
        with subprocess.Popen(["sleep", "60"]) as foreign:
            (farm.folder.path / "postgres/postmaster.pid").write_text(f"{foreign.pid}\n")

            farm.up()

            assert foreign.poll() is None
            foreign.kill()


class TestServerStartedByHand:
    def test_it_is_refused_and_left_alone(self, farm: Farm) -> None:
        farm.up()
        farm.ask("down")
        server = Postgres(farm.folder, farm.folder.choose_port("by hand"))
        with subprocess.Popen(server.command(), env=server.env, cwd=ROOT, stderr=subprocess.DEVNULL) as by_hand:
            wait_until(lambda: (server.data / "postmaster.pid").exists())

            answer = farm.ask("up", "--only", "services")

            assert answer.status == 1
            assert f"Another PostgreSQL (process {by_hand.pid}) already uses" in answer.text
            assert by_hand.poll() is None
            by_hand.send_signal(signal.SIGINT)


class TestDown:
    def test_no_process_and_no_listening_port_stays(self, farm: Farm) -> None:
        farm.up()
        processes = [farm.report.supervisor, *(part.process for part in farm.report.parts)]
        ports = farm.ports()

        answer = farm.ask("down")

        assert answer.text == "Farmhand has stopped.\n"
        assert not any(process.is_alive() for process in processes)
        assert list(find_marked(farm.folder.marker)) == []
        assert all(is_free(port) for port in ports)

    def test_twice_is_no_error(self, farm: Farm) -> None:
        farm.up()
        farm.ask("down")

        answer = farm.ask("down")

        assert (answer.status, answer.text) == (0, "Farmhand does not run.\n")

    def test_status_says_that_nothing_runs(self, farm: Farm) -> None:
        answer = farm.ask("status")

        assert (answer.status, answer.text) == (4, "Farmhand does not run.\n")


class TestRestartPart:
    def test_it_runs_again_as_another_process(self, running: Farm) -> None:
        before = running.part("postgres").process

        answer = running.ask("restart-part", "postgres")

        assert answer.status == 0
        assert not before.is_alive()
        assert running.query("SELECT 1") == [(1,)]

    def test_an_unknown_part_is_refused_with_the_known_ones(self, running: Farm) -> None:
        answer = running.ask("restart-part", "web")

        assert answer.status == 1
        assert "there are postgres, valkey" in answer.text


class TestWithServices:
    def test_the_command_has_both_and_its_status_is_ours(self, farm: Farm) -> None:
        program = "import os, psycopg; psycopg.connect(os.environ['FARM_DATABASE_URL']).close(); raise SystemExit(3)"

        answer = farm.ask("with-services", "--", sys.executable, "-c", program)

        assert answer.status == 3, answer.text

    def test_what_the_command_left_running_is_ended_and_its_folder_removed(self, farm: Farm) -> None:
        answer = farm.ask("with-services", "--", "sh", "-c", "setsid sleep 60 & echo $! $FARM_DATA")

        pid, folder = answer.text.split()
        assert Process.of(int(pid)) is None
        assert not Path(folder).exists()


class TestFolder:
    def test_a_folder_has_one_supervisor(self, running: Farm) -> None:
        answer = running.ask("run", "--only", "services")

        assert answer.status == 1
        assert answer.text == f"A supervisor already works in {running.folder.path}.\n"

    def test_two_folders_do_not_meet(self, farm: Farm, tmp_path: Path) -> None:
        other = Farm(Folder(tmp_path / "another"))
        farm.up()
        try:
            other.up()

            assert farm.ports().isdisjoint(other.ports())
            other.ask("down")
            assert farm.query("SELECT 1") == [(1,)]
        finally:
            other.ask("down")
