"""The Java runner itself: answers, errors, a JVM that dies, one that hangs, a program that does not compile."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.java import CLIENTS_VERSION_OLD, JavaError, JavaProgram, compile_java, run_java


@pytest.fixture
def program() -> Iterator[JavaProgram]:
    with JavaProgram("SelfTest") as started:
        yield started


def test_answers_come_back_in_any_script(program: JavaProgram) -> None:
    assert program.ask("echo", text="größe 温度 😀\n") == "größe 温度 😀\n"


def test_what_a_program_prints_is_not_taken_for_an_answer(program: JavaProgram) -> None:
    assert program.ask("print") == "printed"
    assert program.ask("echo", text="next") == "next"
    assert "this line is no answer" in program.stderr_tail()


def test_an_exception_is_raised_here_and_the_program_goes_on(program: JavaProgram) -> None:
    with pytest.raises(JavaError, match="on purpose") as caught:
        program.ask("throw")
    assert caught.value.error == "java.lang.IllegalStateException"
    with pytest.raises(JavaError, match="no such command"):
        program.ask("unheard of")
    assert program.ask("echo", text="still there") == "still there"


def test_a_jvm_that_ends_is_reported_with_its_last_words(program: JavaProgram) -> None:
    with pytest.raises(JavaError, match=r"(?s)ended with 7.*last words"):
        program.ask("exit")
    with pytest.raises(JavaError, match="ended with 7"):
        program.ask("echo", text="anyone?")


def test_a_jvm_that_hangs_is_ended(program: JavaProgram) -> None:
    with pytest.raises(JavaError, match="gave no answer in 200 ms"):
        program.ask("hang", wait_ms_max=200)
    with pytest.raises(JavaError, match="ended with"):
        program.ask("echo", text="anyone?")


def test_a_one_off_run_gives_its_stdout() -> None:
    assert run_java("SelfTest", "a b", "c", clients_version=CLIENTS_VERSION_OLD) == "a b|c\n"


def test_a_one_off_run_that_fails_raises() -> None:
    with pytest.raises(JavaError, match="ended with 3"):
        run_java("SelfTest", "fail")


def test_a_program_that_does_not_compile_says_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "Wrong.java").write_text("public class Wrong { int x = nowhere; }\n")
    with pytest.raises(JavaError, match=r"(?s)Wrong.java does not compile.*nowhere"):
        compile_java("Wrong", sources=tmp_path)
