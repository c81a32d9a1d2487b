"""
A mixed table: numbers, categories, dates and gaps
==================================================

Bicycles hired from stations on days of two years depend on the season, the weekend, the weather,
and a temperature that is sometimes missing. `table_kernel` proposes a kernel for such a table, to
be read and changed; scales and frequencies are learned from training rows, in each fold anew.
Run with `python examples/mixed_table.py`.
"""

import os

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.model_selection import GridSearchCV, cross_val_predict

from mercer import KernelRidge
from mercer.structured import table_kernel

QUICK = bool(os.environ.get("MERCER_QUICK"))  # CI runs every example at a reduced size
rng = np.random.default_rng(0)
N = 150 if QUICK else 600
days = pd.Timestamp("2023-01-01") + pd.to_timedelta(rng.integers(0, 730, N), unit="D")
season = np.cos(2 * np.pi * (days.day_of_year.to_numpy() - 200) / 365)
temperature = 12 + 10 * season + 3 * rng.normal(size=N)
weather = rng.choice(["sun", "cloud", "rain"], N, p=[0.45, 0.35, 0.2])
station = rng.choice(["harbour", "centre", "park", "school"], N, p=[0.4, 0.3, 0.2, 0.1])
weekend = days.day_of_week.to_numpy() >= 5
factor = pd.Series(weather).map({"sun": 1.2, "cloud": 1.0, "rain": 0.5}).to_numpy()
base = pd.Series(station).map({"harbour": 60, "centre": 90, "park": 40, "school": 70}).to_numpy()
use = np.where(weekend, np.where(station == "park", 2.0, 0.7), 1.0)
hired = base * use * factor * (1 + 0.5 * season + 0.0004 * (days - days.min()).days.to_numpy())
hired = hired + 6 * rng.normal(size=N)

frame = pd.DataFrame(
    {
        "day": days,
        "temperature": np.where(rng.random(N) < 0.15, np.nan, temperature),
        "weather": np.where(rng.random(N) < 0.05, None, weather),
        "station": station,
        "weekend": weekend,
    }
)

# %%
# The proposal is a kernel on named columns. Of dates it takes the trend and the cycles of which
# there is more than one.
kernel = table_kernel(frame)
print(kernel.kernel)

# %%
# λ is chosen within each training part, and predictions are for rows that were left out.
FOLDS = 2 if QUICK else 5
search = GridSearchCV(KernelRidge(kernel=kernel), {"alpha": np.logspace(-2, 1, 4)}, cv=3)
ours = cross_val_predict(search, frame, hired, cv=FOLDS)
numbers = frame.assign(
    year_day=frame["day"].dt.day_of_year, day=(frame["day"] - frame["day"].min()).dt.days
)
numbers[["weather", "station"]] = numbers[["weather", "station"]].astype("category")
boosted = HistGradientBoostingRegressor(categorical_features="from_dtype", random_state=0)
theirs = cross_val_predict(boosted, numbers, hired, cv=FOLDS)
for name, guesses in {"table_kernel, ridge": ours, "gradient boosting": theirs}.items():
    error = np.abs(guesses - hired).mean()
    print(f"{name}: off by {error:.1f} bicycles in the mean, of which the noise is 4.8")

# %%
# What it learned of the season, for two stations on a sunny working day.
model = search.fit(frame, hired).best_estimator_
year = pd.date_range("2024-01-01", "2024-12-30", freq="7D")
figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 3.9), layout="constrained")
for name, colour in (("centre", "#1f5fa8"), ("park", "#d1495b")):
    for free, style in ((False, "-"), (True, "--")):
        rows = pd.DataFrame(
            {"day": year, "temperature": np.nan, "weather": "sun", "station": name, "weekend": free}
        )
        label = f"{name}, {'weekend' if free else 'working day'}"
        left.plot(year, model.predict(rows), style, color=colour, label=label, linewidth=1.8)
left.set_title("the season that was learned, for two stations", fontsize=10)
left.set_ylabel("bicycles a day, sun")
left.set_xticks(pd.to_datetime(["2024-01-15", "2024-04-15", "2024-07-15", "2024-10-15"]))
left.set_xticklabels(["January", "April", "July", "October"])
left.legend(frameon=False, fontsize=8)
for guesses, colour, name in (
    (theirs, "#bbbbbb", "gradient boosting"),
    (ours, "#1f5fa8", "table_kernel, ridge"),
):
    right.plot(hired, guesses, "o", color=colour, markersize=3, label=name)
right.plot([0, 200], [0, 200], color="black", linewidth=0.8)
right.set_title("predictions of left-out rows", fontsize=10)
right.set_xlabel("bicycles hired")
right.set_ylabel("predicted")
right.legend(frameon=False, fontsize=8)
for axis in (left, right):
    axis.spines[["top", "right"]].set_visible(False)
figure.savefig("mixed_table.png", dpi=110)
