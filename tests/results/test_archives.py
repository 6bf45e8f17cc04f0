"""Many files as one zip, whose length is known before it is made."""

from __future__ import annotations

import io
import zipfile
from datetime import datetime, timedelta

import pytest

from farm.core.errors import Invalid
from farm.core.permits import AddressExpired, AddressNotSigned
from farm.core.storage import NoSuchObject, store
from farm.dispatch.models import Output
from farm.results import archives
from farm.results.archives import (
    Archive,
    NothingToDownload,
    TooManyArchives,
    TooManyFiles,
    Wish,
    files_of,
    names,
    wish_of,
)
from tests.results.film import Film


def a_wish(now: datetime) -> Wish:
    expires = int((now + archives.VALID).timestamp())
    return Wish(studio="s", job="j", role="render", frames="1-3", expires=expires)


class TestWish:
    def test_it_comes_back_as_it_was_signed(self, now: datetime) -> None:
        assert wish_of(a_wish(now).sign(), now=now) == a_wish(now)

    @pytest.mark.parametrize("text", ["", "x", "eyJhIjoxfQ:1:abc"])
    def test_what_the_farm_did_not_sign_is_refused(self, now: datetime, text: str) -> None:
        with pytest.raises(AddressNotSigned):
            wish_of(text, now=now)

    def test_a_changed_one_is_refused(self, now: datetime) -> None:
        signed = a_wish(now).sign()

        with pytest.raises(AddressNotSigned):
            wish_of(("b" if signed[0] == "a" else "a") + signed[1:], now=now)

    def test_after_an_hour_it_is_over(self, now: datetime) -> None:
        with pytest.raises(AddressExpired):
            wish_of(a_wish(now).sign(), now=now + timedelta(hours=1))


@pytest.mark.django_db
class TestFilesOf:
    def test_those_of_a_role_and_range_in_order(self, now: datetime) -> None:
        film = Film("1-5", now=now)
        film.render(5, 2, 3)

        assert [f.name for f in files_of(film.job.id, role="render", frames="")] == ["2.png", "3.png", "5.png"]
        assert [f.name for f in files_of(film.job.id, role="proxy", frames="3-9")] == [
            "3.png.proxy.jpg",
            "5.png.proxy.jpg",
        ]

    def test_what_was_rendered_again_is_there_once(self, now: datetime) -> None:
        film = Film("1", now=now)
        film.render(1)
        film.render_again(1, b"again")

        assert len(files_of(film.job.id, role="proxy", frames="")) == 1

    def test_none_and_too_many_are_refused(self, now: datetime, monkeypatch: pytest.MonkeyPatch) -> None:
        film = Film("1-3", now=now)
        with pytest.raises(NothingToDownload):
            files_of(film.job.id, role="render", frames="")
        film.render(1, 2)
        monkeypatch.setattr(archives, "MOST_FILES", 1)

        with pytest.raises(TooManyFiles, match="2 files are more than the 1 "):
            files_of(film.job.id, role="render", frames="")
        assert len(files_of(film.job.id, role="render", frames="1")) == 1
        with pytest.raises(Invalid):
            files_of(film.job.id, role="render", frames="x")


@pytest.mark.django_db
class TestArchive:
    def test_it_is_a_zip_of_the_length_it_said(self, now: datetime) -> None:
        film = Film("1-3", now=now)
        film.render(1, 2, 3)
        archive = Archive(files_of(film.job.id, role="render", frames=""))

        content = b"".join(archive)

        archive.close()
        assert len(content) == len(archive)
        with zipfile.ZipFile(io.BytesIO(content)) as opened:
            assert opened.testzip() is None
            assert {n: opened.read(n) for n in opened.namelist()} == {f"{n}.png": b"render %d" % n for n in (1, 2, 3)}
            assert {info.compress_type for info in opened.infolist()} == {zipfile.ZIP_STORED}

    def test_a_file_is_opened_when_its_turn_comes(self, now: datetime) -> None:
        film = Film("1-2", now=now)
        film.render(1, 2)
        files = files_of(film.job.id, role="render", frames="")
        store().delete(Output.objects.get(pk=files[1].pk).key)
        archive = Archive(files)
        pieces = iter(archive)
        head = next(pieces) + next(pieces)

        with pytest.raises(NoSuchObject):
            list(pieces)

        archive.close()
        assert b"render 1" in head

    def test_there_are_so_many_at_once(self, now: datetime) -> None:
        film = Film("1", now=now)
        film.render(1)
        files = files_of(film.job.id, role="render", frames="")
        made = [Archive(files) for _ in range(archives.MOST_AT_ONCE)]
        with pytest.raises(TooManyArchives):
            Archive(files)
        made[0].close()
        made[0].close()

        again = Archive(files)

        with pytest.raises(TooManyArchives):
            Archive(files)
        for archive in (*made, again):
            archive.close()


class TestNames:
    @pytest.mark.parametrize(
        ("wished", "given"),
        [
            (["a.png", "b/c.png"], ["a.png", "b/c.png"]),
            (["a.png", "A.PNG", "a.png"], ["a.png", "A-2.PNG", "a-3.png"]),
            (["x", "x"], ["x", "x-2"]),
            (["../../etc/passwd", "/abs.png", "C:\\w.png"], ["etc/passwd", "abs.png", "C_/w.png"]),
            (["..", ""], ["unnamed", "unnamed-2"]),
            (["a\x00b\n.png"], ["a_b_.png"]),
            (["con.png", "nul"], ["_con.png", "_nul"]),
            (["x" * 300], ["x" * 200]),
        ],
    )
    def test_they_stay_below_a_folder_and_each_is_another(self, wished: list[str], given: list[str]) -> None:
        assert names(wished) == given
