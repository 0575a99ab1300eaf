"""The picture of the dashboard is drawn from the template and the recorded outage."""

from docs.tools.dashboard import PICTURE, RECORDED, picture
from docs.tools.recorded_metrics import Recording
from tests.docs.test_costs import of_the_shop
from tests.stacks.cloud import Cloud


@of_the_shop
def test_the_picture_of_the_dashboard_is_up_to_date(cloud: Cloud) -> None:
    drawn = picture(cloud.service, Recording.read(RECORDED))
    assert PICTURE.read_text() == drawn, "run `make redraw`"
