"""What `semel.audit` offers, in whatever order it is imported."""

import subprocess
import sys
from importlib import import_module

import pytest

from semel.audit import finding


@pytest.mark.parametrize(
    "program",
    [
        "import semel; assert callable(semel.audit); assert callable(semel.audit); semel.audit.Side",
        "import semel.audit.report, semel; assert callable(semel.audit); semel.audit.Side",
        "from semel.audit import Side, Kind; import semel; assert callable(semel.audit)",
        "import semel.audit, sys; semel.audit.Report; assert 'pyspark' not in sys.modules",
    ],
)
def test_the_package_is_the_function(program: str) -> None:
    subprocess.run([sys.executable, "-c", program], check=True)


def test_every_public_name_is_there() -> None:
    package = import_module("semel.audit")
    for name in package.__all__:
        assert getattr(package, name) is not None
    assert package.Kind is finding.Kind
    assert set(package.__all__) <= set(dir(package))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        package.nothing  # noqa: B018
