"""A test that cannot run is skipped with its reason; with CI=true nothing may be skipped."""

import os

import pytest
from gang import Gang


@pytest.fixture(scope="session", autouse=True)
def own_state(tmp_path_factory):
    """Records of launched runs: what the user of this machine launched is no business of a test."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture
def gang(tmp_path):
    """Real processes; none of them outlives the test."""
    gang = Gang(tmp_path)
    yield gang
    gang.close()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session):
    # Taken from the report, which has tests that skip and whole files that do, such as by importorskip.
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("CI") == "true" and reporter is not None and reporter.stats.get("skipped"):
        reporter.write_line("")
        reporter.write_line("with CI=true a skipped test is a failure", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
