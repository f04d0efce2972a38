import pytest

from groupkeeper.analytics.session import settings_for

LOOPBACK = "spark.driver.bindAddress"


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*]"])
def test_a_local_session_listens_on_loopback_only(master):
    assert settings_for(master, short=False, submitted=False)[LOOPBACK] == "127.0.0.1"


@pytest.mark.parametrize("master", ["spark://host:7077", "yarn", "local-cluster[2,1,1024]"])
def test_workers_of_a_cluster_can_reach_the_driver(master):
    settings = settings_for(master, short=True, submitted=False)
    assert LOOPBACK not in settings
    assert "spark.sql.codegen.wholeStage" not in settings


def test_what_spark_submit_was_given_is_left_alone():
    settings = settings_for(None, short=True, submitted=True)
    assert settings.keys() == {"spark.sql.session.timeZone", "spark.ui.showConsoleProgress"}
