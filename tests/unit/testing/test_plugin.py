"""The pytest plugin, as a project of its own would use it."""

from importlib.metadata import entry_points

import pytest

pytest_plugins = ["pytester"]

PLUGIN = "semel.testing.plugin"


def run(pytester: pytest.Pytester, *lines: str) -> pytest.RunResult:
    """Run a test file in a process of its own."""
    pytester.makepyfile("\n".join(lines))
    registered = any(each.value == PLUGIN for each in entry_points(group="pytest11"))
    own = () if registered else ("-p", PLUGIN)
    return pytester.runpytest_subprocess("-q", "-p", "no:randomly", *own)


def test_a_test_gets_a_cluster_as_large_as_it_is_set(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nsemel_brokers = 2\nsemel_topics = orders:4:1\nsemel_config = num.partitions = 5\n")
    result = run(
        pytester,
        "def test_first(semel_cluster):",
        "    assert len(semel_cluster.bootstrap.split(',')) == 2",
        "    assert len(semel_cluster.core.controller.state.topics['orders'].partitions) == 4",
        "    assert semel_cluster.core.settings.config['num.partitions'] == '5'",
        "    globals()['seen'] = semel_cluster",
        "def test_second(semel_cluster):",
        "    assert semel_cluster is globals()['seen']",
    )
    result.assert_outcomes(passed=2)


@pytest.mark.full
def test_three_brokers_without_settings_and_names_that_differ(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        "import re, pytest",
        "names = set()",
        "def test_brokers(semel_cluster):",
        "    assert len(semel_cluster.bootstrap.split(',')) == 3",
        "@pytest.mark.parametrize('word', ['a b', 'ü', 'x' * 400])",
        "def test_name(semel_name, word):",
        "    assert re.fullmatch(r'[A-Za-z0-9._-]{1,249}', semel_name)",
        "    assert semel_name not in names",
        "    names.add(semel_name)",
    )
    result.assert_outcomes(passed=4)


@pytest.mark.full
def test_faults_end_with_the_test_that_armed_them(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nsemel_brokers = 1\n")
    result = run(
        pytester,
        "from semel.broker.runtime.intercept import DropRequest",
        "def test_arms(semel_cluster):",
        "    semel_cluster.intercept('Produce', DropRequest(), times=None)",
        "    assert semel_cluster.core.intercepts.armed",
        "def test_is_safe(semel_cluster):",
        "    assert not semel_cluster.core.intercepts.armed",
    )
    result.assert_outcomes(passed=2)


@pytest.mark.quick(1)
@pytest.mark.parametrize("line", ["semel_brokers = many", "semel_config = no-value"])
def test_a_wrong_setting_is_explained(pytester: pytest.Pytester, line: str) -> None:
    pytester.makeini(f"[pytest]\n{line}\n")
    result = run(pytester, "def test_it(semel_cluster): pass")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*you want*"])


def test_nothing_is_started_for_tests_that_do_not_ask(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        "import sys",
        "def test_it():",
        "    assert 'semel.engine.embedded' not in sys.modules",
    )
    result.assert_outcomes(passed=1)
