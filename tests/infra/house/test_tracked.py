"""Files that name what they must not."""

from pathlib import Path

import pytest

from infra.house.tracked import findings

REGISTRY = "files.python" + "hosted.org"  # in two parts: this file is tracked too


class TestFindings:
    @pytest.mark.parametrize(
        "line",
        [
            f"see https://{REGISTRY}/packages",
            "resolved: registry.npm" + "js.org/react",
            "PATH=/ro" + "ot/bin",
            "open('/wo" + "rk/main/x')",
        ],
    )
    def test_a_registry_or_a_path_of_this_machine_is_found(self, tmp_path: Path, line: str) -> None:
        path = tmp_path / "notes.md"
        path.write_text(f"fine\n{line}\n")

        found = list(findings([path]))

        assert len(found) == 1
        assert ":2: names a" in found[0]

    @pytest.mark.parametrize("line", ["frames/work/0001.png", "${HOME}/root/x", "/home/artist/tex.png", "/rooted/x"])
    def test_other_paths_are_not(self, tmp_path: Path, line: str) -> None:
        path = tmp_path / "notes.md"
        path.write_text(line)

        assert list(findings([path])) == []

    def test_pictures_and_deleted_files_do_no_harm(self, tmp_path: Path) -> None:
        (tmp_path / "a.png").write_bytes(bytes(range(256)))

        assert list(findings([tmp_path / "a.png", tmp_path / "gone"])) == []
