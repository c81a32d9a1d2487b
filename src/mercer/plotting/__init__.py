"""Pictures of fitted models; matplotlib is imported when one is drawn."""

from mercer.plotting.history import HistoryDisplay
from mercer.plotting.metric import MetricDisplay
from mercer.plotting.regret import RegretDisplay

__all__ = ["HistoryDisplay", "MetricDisplay", "RegretDisplay"]
