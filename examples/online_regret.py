"""
Online learning: regret and its bound
=====================================

**Claim.** For convex losses, a constant step η and f_1 = 0, an online machine without a budget pays
at most U²/(2η) + (η/2) Σ‖g_t‖² more than the best function with ‖f‖ ≤ U, chosen in hindsight: on
every stream, also one that drifts. With η = U/(G√T) that is UG√T. With steps 1/(λt) on the
regularised loss it is Σ‖g_t‖²/(2λt), which grows with log T only.
Run with `python examples/online_regret.py`.
"""

import matplotlib.pyplot as plt
import numpy as np

from mercer.kernels import Gaussian
from mercer.losses import Hinge
from mercer.online import OnlineKernelMachine, schedules
from mercer.online.regret import regret
from mercer.plotting import RegretDisplay

rng = np.random.default_rng(0)
T, U = 800, 6.0
X = rng.uniform(-2, 2, (T, 2))
angle = np.linspace(0.0, 1.0, T)  # the boundary turns while the stream runs
y = np.where(X[:, 0] * np.cos(angle) + X[:, 1] * np.sin(angle) > 0, 1, -1)
y = np.where(rng.random(T) < 0.05, -y, y)

MACHINES = {
    "constant step U/√T": {"regularization": 0.0, "step": schedules.Constant(U / np.sqrt(T))},
    "steps 1/(λt), λ = 0.02": {"regularization": 0.02, "step": schedules.InverseTime(1 / 0.02)},
}
figure, axes = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
for axis, (name, options) in zip(axes, MACHINES.items(), strict=True):
    machine = OnlineKernelMachine(Gaussian(0.7), loss=Hinge(), record=True, **options)
    machine.partial_fit(X, y, classes=[-1, 1])
    found = regret(machine, U)
    assert (found.regret <= found.bound).all()
    print(f"{name}: regret {found.regret[-1]:.1f} after {T} rounds; bound {found.bound[-1]:.1f}")
    RegretDisplay(found).plot(axis)
    axis.set_title(name, fontsize=10)
print(f"with losses of slope 1 and k(x, x) = 1 the first bound is at most U√T = {U * T**0.5:.1f}")
figure.savefig("online_regret.png", dpi=110)
