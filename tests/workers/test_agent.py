"""The agent as a machine runs it: a real process, real sandboxes, a real broker, and a farm that can be nasty."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.workers.conftest import RunningAgent, processes
from tests.workers.fake_farm import FakeFarm
from tests.workers.tasks import RENDER, environment, python, shell
from workers.protocol import Cause, Outcome, OutputRole, Phase, TaskParameter, WorkerState

Start = Callable[..., RunningAgent]


@pytest.fixture(scope="module")
def shared_farm(tmp_path_factory: pytest.TempPathFactory, broker_url: str) -> Iterator[FakeFarm]:
    folder = tmp_path_factory.mktemp("shared")
    farm = FakeFarm(folder / "farm", broker_url)
    agent = RunningAgent(farm, folder / "work", "--slots", "1")
    farm.wait(lambda: farm.syncs)
    yield farm
    agent.stop()
    farm.close()


@pytest.fixture
def served(shared_farm: FakeFarm) -> FakeFarm:
    """A farm with one agent that serves many tests, one after the other."""
    shared_farm.wait(lambda: not shared_farm.syncs[-1].attempts or shared_farm.say())
    return shared_farm


class TestRegister:
    def test_it_says_what_the_machine_has(self, served: FakeFarm) -> None:
        said = served.registered[0]

        assert [(slot.index, slot.gpu_model) for slot in said.slots] == [(0, "")]
        assert said.sandboxed
        assert said.cores >= 1
        assert said.memory_mib > 100

    def test_once_it_is_in_it_makes_the_file_that_its_machine_waits_for(
        self, farm: FakeFarm, start_agent: Start, tmp_path: Path
    ) -> None:
        mark, refused = tmp_path / "registered", tmp_path / "refused"
        start_agent("--registered-file", str(mark))
        farm.wait(mark.exists)

        farm.before = lambda path: (401, {"code": "secret-used", "detail": "This secret was used already."})
        start_agent("--registered-file", str(refused)).ends()

        assert not refused.exists()

    def test_a_wrong_secret_ends_it_with_the_farms_own_sentence(self, farm: FakeFarm, start_agent: Start) -> None:
        farm.before = lambda path: (401, {"code": "secret-used", "detail": "This secret was used already."})

        agent = start_agent()

        assert agent.ends() == 3
        assert "This secret was used already." in agent.said.read_text(encoding="utf-8")

    def test_an_old_protocol_is_told_so(self, farm: FakeFarm, start_agent: Start) -> None:
        farm.before = lambda path: (426, {"code": "protocol-too-old", "detail": "Use an agent of this year."})

        agent = start_agent()

        assert agent.ends() == 3
        assert "Use an agent of this year." in agent.said.read_text(encoding="utf-8")

    def test_a_farm_that_is_not_up_yet_is_asked_again(self, farm: FakeFarm, start_agent: Start) -> None:
        refusals = iter([(503, {}), (502, {}), (200, {"not": "an answer"})])
        farm.before = lambda path: next(refusals, None)

        start_agent()

        assert farm.wait(lambda: farm.syncs)


class TestAttempt:
    def test_a_frame_is_rendered_proved_previewed_sent_and_reported(self, served: FakeFarm) -> None:
        step = served.add_step(RENDER)

        end = served.wait_end(served.assign(step, expected=["7.png"], parameters={"Frame": ("INT", "7")}))

        assert (end.outcome, end.cause, end.sentence) == (Outcome.SUCCEEDED, None, "")
        assert [(o.name, o.role) for o in end.outputs] == [
            ("7.png", OutputRole.RENDER),
            ("7.png.proxy.jpg", OutputRole.PROXY),
            ("7.png.thumbnail.jpg", OutputRole.THUMBNAIL),
        ]
        frame = end.outputs[0]
        assert (frame.format, frame.width, frame.height, frame.channels, frame.bit_depth) == ("png", 64, 36, 3, 8)
        assert frame.statistics is not None
        assert not frame.statistics["uniform"]
        assert end.render_ms > 0
        assert end.setup_ms > 0
        assert end.peak_memory_mib > 0

    def test_the_scene_is_there_and_cannot_be_written(self, served: FakeFarm) -> None:
        text = "cat /scene/a/b.txt; touch /scene/x 2>/dev/null && echo WRITTEN; echo x > /scene/a/b.txt || echo refused"
        step = served.add_step(shell(text), files={"a/b.txt": b"scene bytes"})

        attempt = served.assign(step, expected=[])

        served.wait_end(attempt)
        assert served.log(attempt).startswith("scene bytes")
        assert "WRITTEN" not in served.log(attempt)
        assert "refused" in served.log(attempt)

    def test_a_session_is_entered_once_for_a_steps_tasks(self, served: FakeFarm) -> None:
        step = served.add_step(
            shell("cat /tmp/entered"), environments=[environment("Env", on_enter="echo entered >> /tmp/entered")]
        )

        first = served.assign(step, expected=[])
        second = served.assign(step, expected=[])

        assert served.wait_end(first).setup_ms > 0
        assert served.wait_end(second).setup_ms == 0
        assert served.log(second) == "entered\n"

    def test_the_next_step_gets_a_session_of_its_own(self, served: FakeFarm) -> None:
        one, two = (served.add_step(shell("ls /tmp/kept; touch /tmp/kept")) for _ in range(2))

        served.wait_end(served.assign(one, expected=[]))
        attempt = served.assign(two, expected=[])

        assert served.wait_end(attempt).setup_ms > 0
        assert "No such file" in served.log(attempt)

    def test_the_output_folder_is_empty_at_each_start(self, served: FakeFarm) -> None:
        step = served.add_step(shell("ls -A /out; mkdir /out/old; touch /out/old/file"))

        first, second = (served.assign(step, expected=None) for _ in range(2))

        assert [o.name for o in served.wait_end(first).outputs] == ["old/file"]
        served.wait_end(second)
        assert served.log(second) == ""

    def test_job_parameters_that_are_paths_point_into_the_sandbox(self, served: FakeFarm) -> None:
        step = served.add_step(
            shell('cat "$1"; test -d "$(dirname "$2")" && echo done > "$2"', "{{Param.In}}", "{{Param.Out}}"),
            files={"in/x.txt": b"given\n"},
            parameters={
                "In": TaskParameter(type="PATH", value="in/x.txt"),
                "Out": TaskParameter(type="PATH", value="deep/er/y.txt"),
            },
            input_paths=["In"],
            output_paths=["Out"],
        )

        attempt = served.assign(step, expected=None)

        assert [o.name for o in served.wait_end(attempt).outputs] == ["deep/er/y.txt"]
        assert served.outputs(attempt) == {"deep/er/y.txt": b"done\n"}
        assert served.log(attempt) == "given\n"

    def test_sources_appear_at_their_very_paths_and_windows_spellings_are_mapped(self, served: FakeFarm) -> None:
        step = served.add_step(
            shell('cat /mnt/studio/t.txt; cat "$1"', "{{Session.PathMappingRulesFile}}"),
            files={"tex/t.txt": b"texture\n", "tex/w.txt": b"w"},
            sources={"tex/t.txt": "/mnt/studio/t.txt", "tex/w.txt": "C:\\tex\\w.txt"},
        )

        attempt = served.assign(step, expected=[])

        assert served.wait_end(attempt).outcome is Outcome.SUCCEEDED
        assert served.log(attempt).startswith("texture\n")
        assert '"/scene/tex/w.txt"' in served.log(attempt)

    def test_a_source_over_the_system_is_refused_clearly(self, served: FakeFarm) -> None:
        step = served.add_step(shell("true"), files={"f.ttf": b"font"}, sources={"f.ttf": "/usr/share/fonts/f.ttf"})

        end = served.wait_end(served.assign(step, expected=[]))

        assert end.cause is Cause.MISSING_ASSET
        assert "/usr/share/fonts/f.ttf" in end.sentence

    def test_progress_is_passed_on(self, served: FakeFarm) -> None:
        step = served.add_step(shell("echo openjd_progress: 40; sleep 2"))

        attempt = served.assign(step, expected=[])

        served.wait(lambda: served.say() or ((r := served.report_of(attempt)) and r.progress == 0.4))
        served.wait_end(attempt)


class TestFailure:
    def test_an_exit_code_is_the_scenes_error_and_named(self, served: FakeFarm) -> None:
        attempt = served.assign(served.add_step(shell("echo boom; exit 3")), expected=[])

        end = served.wait_end(attempt)

        assert (end.outcome, end.cause) == (Outcome.FAILED, Cause.SCENE_ERROR)
        assert "exit code 3" in end.sentence
        assert served.log(attempt).startswith("boom\n")

    def test_what_the_renderer_says_of_its_end_counts(self, served: FakeFarm) -> None:
        line = '{"cause": "missing_asset", "sentence": "wood.png is missing; upload it."}'
        step = served.add_step(shell(f"echo 'farmhand_device: CPU'; echo 'farmhand_end: {line}'; exit 1"))

        end = served.wait_end(served.assign(step, expected=[]))

        assert (end.cause, end.sentence, end.device) == (Cause.MISSING_ASSET, "wood.png is missing; upload it.", "CPU")

    def test_a_scene_cannot_claim_that_the_farm_is_at_fault(self, served: FakeFarm) -> None:
        step = served.add_step(shell("""echo 'farmhand_end: {"cause": "lost", "sentence": "free!"}'; exit 1"""))

        assert served.wait_end(served.assign(step, expected=[])).cause is Cause.SCENE_ERROR

    def test_an_openjd_failure_message_is_the_sentence(self, served: FakeFarm) -> None:
        step = served.add_step(shell("echo 'openjd_fail: no camera in the scene'; exit 1"))

        assert served.wait_end(served.assign(step, expected=[])).sentence == "no camera in the scene"

    def test_a_crash_is_no_scene_error(self, served: FakeFarm) -> None:
        step = served.add_step(shell("kill -SEGV $$"))

        assert served.wait_end(served.assign(step, expected=[])).cause is Cause.RENDERER_CRASHED

    def test_a_command_that_does_not_exist_is_named(self, served: FakeFarm) -> None:
        step = served.add_step({"actions": {"onRun": {"command": "no-such-renderer"}}})

        end = served.wait_end(served.assign(step, expected=[]))

        assert end.outcome is Outcome.FAILED
        assert end.cause is Cause.SCENE_ERROR

    def test_an_environment_that_cannot_be_entered_fails_the_attempt(self, served: FakeFarm) -> None:
        step = served.add_step(shell("true"), environments=[environment("Env", on_enter="echo no licence; exit 2")])
        attempt = served.assign(step, expected=[])

        end = served.wait_end(attempt)

        assert end.cause is Cause.SCENE_ERROR
        assert "starting up" in end.sentence
        assert served.log(attempt).startswith("no licence\n")

    def test_success_without_the_file_is_missing_output(self, served: FakeFarm) -> None:
        end = served.wait_end(served.assign(served.add_step(shell("true")), expected=["1.png"]))

        assert end.cause is Cause.MISSING_OUTPUT
        assert "1.png" in end.sentence

    @pytest.mark.parametrize("trick", ["ln -s /etc/passwd", "mkfifo", "ln /out/other.png"])
    def test_links_and_pipes_are_no_outputs(self, served: FakeFarm, trick: str) -> None:
        step = served.add_step(shell(f"touch /out/other.png; {trick} /out/1.png"))

        end = served.wait_end(served.assign(step, expected=["1.png"]))

        assert end.cause is Cause.UNEXPECTED_OUTPUT
        assert end.outputs == []

    def test_a_truncated_image_is_bad_output(self, served: FakeFarm) -> None:
        step = served.add_step(python('open("/out/1.png", "wb").write(png()[:-40])'))

        end = served.wait_end(served.assign(step, expected=["1.png"]))

        assert end.cause is Cause.BAD_OUTPUT
        assert "1.png" in end.sentence

    def test_a_hung_task_is_no_progress(self, served: FakeFarm, mark: str) -> None:
        step = served.add_step(shell(f"sleep {mark}"))

        end = served.wait_end(served.assign(step, expected=[], no_progress_s=2))

        assert end.cause is Cause.NO_PROGRESS
        assert processes(mark) == []

    def test_a_task_beyond_its_time_is_timeout(self, served: FakeFarm) -> None:
        step = served.add_step(shell("while :; do :; done"))

        assert served.wait_end(served.assign(step, expected=[], timeout_s=1)).cause is Cause.TIMEOUT

    def test_too_much_memory_is_out_of_memory(self, served: FakeFarm) -> None:
        step = served.add_step(python("x = bytearray(600 << 20)"))

        end = served.wait_end(served.assign(step, expected=[], memory_mib=200))

        assert end.cause is Cause.OUT_OF_MEMORY
        assert "200 MiB" in end.sentence

    def test_a_gpu_task_without_a_gpu_is_the_farms_fault(self, served: FakeFarm) -> None:
        step = served.add_step(shell("true"), needs_gpu=True)

        assert served.wait_end(served.assign(step, expected=[])).cause is Cause.NO_GPU

    def test_a_renderer_this_machine_has_not_is_said(self, served: FakeFarm) -> None:
        step = served.add_step(shell("true"), software={"blender": "9.9"})

        end = served.wait_end(served.assign(step, expected=[]))

        assert end.cause is Cause.AGENT_ERROR
        assert "blender 9.9" in end.sentence

    def test_a_slot_that_is_not_there_is_said(self, served: FakeFarm) -> None:
        end = served.wait_end(served.assign(served.add_step(shell("true")), expected=[], slot=5))

        assert end.cause is Cause.AGENT_ERROR


class TestLog:
    def test_a_log_beyond_its_limit_keeps_head_and_tail(self, served: FakeFarm) -> None:
        step = served.add_step(python('[print("line", n, "x" * 7000) for n in range(4000)]'))
        attempt = served.assign(step, expected=[])

        served.wait_end(attempt, 60)

        log = served.log(attempt)
        assert len(log.encode()) <= 20_000_000
        assert log.startswith("line 0 x")
        assert "bytes of this log were left out" in log
        assert log.endswith("line 3999 " + "x" * 7000 + "\n")

    def test_whatever_is_printed_becomes_text(self, served: FakeFarm) -> None:
        attempt = served.assign(served.add_step(shell(r"printf 'a\000b\377c\n\033[1mbold'")), expected=[])

        served.wait_end(attempt)

        assert "\0" not in served.log(attempt)
        assert "bold" in served.log(attempt)


class TestStop:
    def test_a_stop_order_kills_the_whole_tree_and_is_reported(self, served: FakeFarm, mark: str) -> None:
        step = served.add_step(shell(f"(setsid setsid sleep {mark} &) ; nohup sleep {mark} & sleep {mark}"))
        attempt = served.assign(step, expected=[])
        served.wait(lambda: len(processes(mark)) >= 3)

        served.order_stop(attempt, "cancelled")

        end = served.wait_end(attempt)
        assert (end.outcome, end.cause) == (Outcome.CANCELLED, Cause.CANCELLED)
        assert processes(mark) == []
        assert end.render_ms > 0

    def test_an_attempt_that_waits_is_stopped_too(self, served: FakeFarm, mark: str) -> None:
        step = served.add_step(shell(f"sleep {mark}"))
        running, waiting = (served.assign(step, expected=[]) for _ in range(2))
        served.wait(lambda: processes(mark))

        served.order_stop(waiting)
        end = served.wait_end(waiting)
        served.order_stop(running)
        served.wait_end(running)

        assert (end.outcome, end.render_ms) == (Outcome.CANCELLED, 0)

    def test_an_attempt_no_longer_listed_is_killed_and_not_spoken_of(self, served: FakeFarm, mark: str) -> None:
        attempt = served.assign(served.add_step(shell(f"sleep {mark}")), expected=[])
        served.wait(lambda: processes(mark))

        served.unlist(attempt)

        served.wait(lambda: not processes(mark))
        served.say()
        served.wait(lambda: served.report_of(attempt) is None)
        assert attempt not in served.end_reports

    def test_an_attempt_stopped_before_it_came_is_reported_cancelled(self, served: FakeFarm) -> None:
        attempt = served.assign(served.add_step(shell("true")), expected=[], say=False)

        served.order_stop(attempt)

        assert served.wait_end(attempt).outcome is Outcome.CANCELLED


class TestConversation:
    def test_a_doubled_message_changes_nothing(self, served: FakeFarm) -> None:
        attempt = served.assign(served.add_step(shell("sleep 0.5; echo once >> /out/x.txt")), expected=None)

        for _ in range(20):
            served.say()

        served.wait_end(attempt)
        assert served.outputs(attempt) == {"x.txt": b"once\n"}
        assert served.end_reports.count(attempt) == 1

    def test_a_lost_message_costs_only_time(self, farm: FakeFarm, start_agent: Start) -> None:
        farm.interval_s = 0.5
        start_agent()
        farm.wait(lambda: farm.syncs)

        attempt = farm.assign(farm.add_step(shell("true")), expected=[], say=False)

        assert farm.wait_end(attempt).outcome is Outcome.SUCCEEDED

    def test_an_end_whose_answer_is_lost_is_repeated(self, served: FakeFarm) -> None:
        served.lose_answers = 2

        attempt = served.assign(served.add_step(RENDER), expected=["1.png"], parameters={"Frame": ("INT", "1")})

        served.wait(lambda: served.end_reports.count(attempt) == 3)
        served.wait(lambda: served.say() or served.report_of(attempt) is None)
        assert served.ends[attempt].outcome is Outcome.SUCCEEDED

    def test_outputs_the_farm_cannot_find_are_sent_again(self, served: FakeFarm) -> None:
        served.refuse_ends = 1
        attempt = served.assign(served.add_step(RENDER), expected=["1.png"], parameters={"Frame": ("INT", "1")})

        assert served.wait_end(attempt).outcome is Outcome.SUCCEEDED
        assert served.end_reports.count(attempt) == 2
        assert served.stored.count(f"{attempt}/output/1.png") == 1  # the second time it was there already

    def test_a_farm_that_is_away_gets_the_frame_when_it_is_back(self, served: FakeFarm) -> None:
        attempt = served.assign(served.add_step(shell("sleep 0.5; echo x > /out/x")), expected=None)
        served.wait(lambda: served.report_of(attempt))
        back = time.monotonic() + 3
        served.before = lambda path: (503, {}) if time.monotonic() < back else None

        end = served.wait_end(attempt)

        assert end.outcome is Outcome.SUCCEEDED
        assert time.monotonic() > back

    def test_an_expired_upload_address_is_asked_for_again(self, served: FakeFarm) -> None:
        refused = iter([(403, b"")])
        served.before = lambda path: next(refused, None) if path.endswith("/output/x") else None

        attempt = served.assign(served.add_step(shell("echo x > /out/x")), expected=None)

        assert served.wait_end(attempt).outcome is Outcome.SUCCEEDED
        served.before = lambda path: None

    def test_a_token_no_longer_good_ends_the_agent_and_all_it_runs(
        self, farm: FakeFarm, start_agent: Start, mark: str
    ) -> None:
        agent = start_agent()
        farm.assign(farm.add_step(shell(f"sleep {mark}")), expected=[])
        farm.wait(lambda: processes(mark))

        farm.token = "another"
        farm.say()

        assert agent.ends() == 0
        assert processes(mark) == []

    def test_gone_ends_the_agent(self, farm: FakeFarm, start_agent: Start) -> None:
        agent = start_agent()
        farm.wait(lambda: farm.syncs)

        farm.state = WorkerState.GONE
        farm.say()

        assert agent.ends() == 0

    def test_without_a_word_from_the_farm_an_idle_agent_ends(self, farm: FakeFarm, start_agent: Start) -> None:
        farm.interval_s = 0.3
        agent = start_agent("--silence", "1")
        farm.wait(lambda: farm.syncs)

        farm.before = lambda path: (503, {})

        assert agent.ends() == 0

    def test_without_a_word_a_busy_agent_finishes_starts_nothing_and_delivers(
        self, farm: FakeFarm, start_agent: Start, mark: str
    ) -> None:
        farm.interval_s = 0.3
        agent = start_agent("--silence", "1", "--delivery", "60")
        farm.wait(lambda: farm.syncs)
        step = farm.add_step(shell(f"sh -c 'sleep 3; true' {mark}; echo x > /out/x"))
        running, waiting = (farm.assign(step, expected=None) for _ in range(2))
        farm.wait(lambda: (r := farm.report_of(running)) and r.phase is Phase.RUNNING and farm.report_of(waiting))

        farm.wait(lambda: processes(mark))
        farm.before = lambda path: (503, {})
        farm.wait(lambda: not processes(mark))
        time.sleep(1)
        farm.before = lambda path: None

        assert farm.wait_end(running).outcome is Outcome.SUCCEEDED
        assert farm.wait_end(waiting).outcome is Outcome.INTERRUPTED
        assert agent.process.poll() is None


class TestEnding:
    def test_kill_minus_nine_leaves_no_process(self, farm: FakeFarm, start_agent: Start, mark: str) -> None:
        agent = start_agent()
        step = farm.add_step(shell(f"setsid sleep {mark} & nohup sleep {mark} & sleep {mark}"))
        farm.assign(step, expected=[])
        farm.wait(lambda: len(processes(mark)) >= 3)

        agent.process.kill()
        agent.ends()

        farm.wait(lambda: not processes(mark) and not processes(str(agent.work)), 5)

    def test_sigterm_hands_back_what_waits_and_finishes_what_can_be(self, farm: FakeFarm, start_agent: Start) -> None:
        agent = start_agent("--grace", "20")
        step = farm.add_step(shell("sleep 1.5; echo x > /out/x"))
        running, waiting = (farm.assign(step, expected=None) for _ in range(2))
        farm.wait(lambda: (r := farm.report_of(running)) and r.phase is Phase.RUNNING and farm.report_of(waiting))

        agent.process.terminate()

        assert farm.wait_end(waiting).outcome is Outcome.INTERRUPTED
        assert running not in farm.ends
        assert farm.wait_end(running).outcome is Outcome.SUCCEEDED
        assert agent.ends() == 0
        assert farm.syncs[-1].state is WorkerState.DRAINING

    def test_sigterm_interrupts_what_does_not_end_in_time(self, farm: FakeFarm, start_agent: Start, mark: str) -> None:
        agent = start_agent("--grace", "1")
        attempt = farm.assign(farm.add_step(shell(f"sleep {mark}")), expected=[])
        farm.wait(lambda: processes(mark))

        agent.process.terminate()

        end = farm.wait_end(attempt)
        assert (end.outcome, end.cause) == (Outcome.INTERRUPTED, Cause.INTERRUPTED)
        assert agent.ends() == 0
        assert processes(mark) == []

    def test_an_agent_past_its_lifetime_drains_and_ends(self, farm: FakeFarm, start_agent: Start) -> None:
        agent = start_agent("--max-lifetime", "1")

        assert agent.ends() == 0
        assert "lifetime" in farm.syncs[-1].reason


class TestDisk:
    def test_a_session_idle_for_long_is_left(self, farm: FakeFarm, start_agent: Start) -> None:
        farm.interval_s = 0.3
        start_agent("--session-idle", "0.5")
        step = farm.add_step(shell("true"), environments=[environment("E", on_enter="true")])

        farm.wait_end(farm.assign(step, expected=[]))

        farm.wait(lambda: farm.syncs[-1].slots[0].step == step)
        farm.wait(lambda: farm.syncs[-1].slots[0].step is None)

    def test_scene_versions_on_disk_are_named(self, farm: FakeFarm, start_agent: Start) -> None:
        start_agent()
        step = farm.add_step(shell("true"), files={"x": b"x"})

        farm.wait_end(farm.assign(step, expected=[]))

        assert farm.syncs[-1].scene_versions == [f"version-{step}"]

    def test_a_full_disk_is_the_farms_fault_and_the_agent_lives_on(
        self, farm: FakeFarm, start_agent: Start, small_disk: Path
    ) -> None:
        agent = start_agent(work=small_disk)
        step = farm.add_step(shell("head -c 100000000 /dev/zero > /out/x; echo finished"))

        end = farm.wait_end(farm.assign(step, expected=["x"]))

        assert end.cause is Cause.DISK_FULL
        good = farm.assign(farm.add_step(shell("echo x > /out/x")), expected=None)
        assert farm.wait_end(good).outcome is Outcome.SUCCEEDED
        assert agent.process.poll() is None

    def test_a_scene_that_does_not_fit_the_disk_is_disk_full(
        self, farm: FakeFarm, start_agent: Start, small_disk: Path
    ) -> None:
        start_agent(work=small_disk)
        step = farm.add_step(shell("true"), files={"big": bytes(60 << 20)})

        assert farm.wait_end(farm.assign(step, expected=[])).cause is Cause.DISK_FULL
