"""The item characteristic curve and its derivatives, for NumPy arrays and torch tensors alike.

P(x = 1 | theta) = c + (1 - c) s(z),   z = a theta + d,   s(z) = 1 / (1 + exp(-z))              (Birnbaum, 1968)
P(x = 1 | theta) = c + (u - c) s(z) with an upper asymptote u                         (Barton & Lord, 1981)

These are the formulas and nothing else: `curves` has them for NumPy, `pyro_model.tensors` for torch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, TypeVar

Values = TypeVar("Values", bound=Any)  # an array or a tensor: what has the four operations


@dataclass(frozen=True, eq=False)
class Curve(Generic[Values]):
    """P at some z, and its derivatives, each computed when it is first asked for.

    In names of derivatives ``log_p`` stands for log P and ``log_q`` for log(1 - P), ``z`` for the linear predictor,
    ``c`` for guessing and ``l`` for its logit: ``log_p_zc`` is the derivative of log P by z and c. By the chain rule a
    derivative by theta is a times, and one by the slope theta times, that by z; by the intercept it is the same. All
    have the shape of z and c broadcast, but where z does not enter, that of c.

    Shares of P are taken first and multiplied then, so that nothing is 0 / 0 where P nears 0; only the derivatives of
    log P by c itself grow there, as 1 / P.

    Parameters
    ----------
    z
        Linear predictor a theta + d.
    c
        Guessing in [0, 1), a shape that broadcasts against z.
    logistic
        The logistic function, above 0 everywhere, however negative its argument.
    """

    z: Values
    c: Values
    logistic: Callable[[Values], Values]

    @cached_property
    def s(self) -> Values:
        """Logistic function of z."""
        return self.logistic(self.z)

    @cached_property
    def t(self) -> Values:
        """1 - s: logistic function of -z."""
        return self.logistic(-self.z)

    @cached_property
    def slip(self) -> Values:
        """1 - c, its shape."""
        return -self.c + 1

    @cached_property
    def p(self) -> Values:
        """P, the probability of a right response."""
        return self.c + self.slip * self.s

    @cached_property
    def q(self) -> Values:
        """1 - P = (1 - c) t, without loss of digits where P is near 1."""
        return self.slip * self.t

    @cached_property
    def variance(self) -> Values:
        """P (1 - P), the variance of a response."""
        return self.p * self.q

    # --- shares of P ---

    @cached_property
    def weight(self) -> Values:
        """P_z / (P (1 - P)) = s / P, 1 without guessing: times the slope, a response's weight in the score of theta."""
        return self.s / self.p

    @cached_property
    def known(self) -> Values:
        """(1 - c) s / P: the share of right responses that are not guessed."""
        return self.slip * self.weight

    @cached_property
    def guessed(self) -> Values:
        """C / P: the share of right responses that are."""
        return self.c / self.p

    # --- P by z and c ---

    @cached_property
    def p_z(self) -> Values:
        """P_z = (1 - c) s t; P' by theta is a times that."""
        return self.q * self.s

    # --- log P and log(1 - P) by z: the score of a response ---

    @cached_property
    def log_p_z(self) -> Values:
        """P_z / P = known t."""
        return self.known * self.t

    @cached_property
    def log_q_z(self) -> Values:
        """-P_z / (1 - P) = -s."""
        return -self.s

    @cached_property
    def log_p_zz(self) -> Values:
        """(known t)(guessed t - s): positive, hence log P not concave, where most is guessed."""
        return self.log_p_z * (self.guessed * self.t - self.s)

    @cached_property
    def log_q_zz(self) -> Values:
        """-s t."""
        return -self.s * self.t

    # --- by c ---

    @cached_property
    def log_p_c(self) -> Values:
        """P_c / P = t / P."""
        return self.t / self.p

    @cached_property
    def log_q_c(self) -> Values:
        """-1 / (1 - c), the shape of c."""
        return -(self.slip**-1)

    # --- by the logit l of c, dc / dl = c (1 - c) ---

    @cached_property
    def log_p_l(self) -> Values:
        """(1 - c) t guessed = guessed (1 - P)."""
        return self.guessed * self.q

    @cached_property
    def log_q_l(self) -> Values:
        """-c, its shape."""
        return -self.c

    @cached_property
    def log_p_zl(self) -> Values:
        """-known t (c + guessed (1 - P)) = -known guessed t; that of log(1 - P) is 0."""
        return -self.log_p_z * self.guessed

    @cached_property
    def log_p_ll(self) -> Values:
        """log_p_l (1 - 2 c - log_p_l)."""
        return self.log_p_l * (1 - 2 * self.c - self.log_p_l)

    @cached_property
    def log_q_ll(self) -> Values:
        """-c (1 - c), the shape of c."""
        return -self.c * self.slip

    # --- expected information of one response ---

    @cached_property
    def information_zz(self) -> Values:
        """P_z^2 / (P (1 - P)) = known s t; times a^2 the information on theta."""
        return self.known * self.s * self.t


@dataclass(frozen=True, eq=False)
class CurveToUpper(Curve[Values]):
    """P = c + (u - c) s with an upper asymptote u: even the ablest are wrong sometimes.

    In names of derivatives ``v`` stands for the logit of u. Derivatives of log(1 - P) by c have the shape of z here.

    Parameters
    ----------
    u
        Upper asymptote in (c, 1], a shape that broadcasts against z.
    """

    u: Values

    @cached_property
    def slip(self) -> Values:
        """U - c, the height of the curve."""
        return self.u - self.c

    @cached_property
    def q(self) -> Values:
        """1 - P = 1 - u + (u - c) t."""
        return (1 - self.u) + self.slip * self.t

    # --- shares of P and of 1 - P ---

    @cached_property
    def known(self) -> Values:
        """(u - c) s / P: the share of right responses that are not guessed."""
        return self.slip * self.s / self.p

    @cached_property
    def missed(self) -> Values:
        """(u - c) t / (1 - P): the share of wrong responses that are no slips, 1 where u = 1."""
        return self.slip * self.t / self.q

    @cached_property
    def weight(self) -> Values:
        """P_z / (P (1 - P)) = missed s / P."""
        return self.missed * self.s / self.p

    # --- by z ---

    @cached_property
    def p_z(self) -> Values:
        """P_z = (u - c) s t."""
        return self.slip * self.s * self.t

    @cached_property
    def log_q_z(self) -> Values:
        """-P_z / (1 - P) = -missed s."""
        return -self.missed * self.s

    @cached_property
    def log_q_zz(self) -> Values:
        """-missed s (t - (1 - missed) s)."""
        return self.log_q_z * (self.t - (1 - self.missed) * self.s)

    # --- by c and its logit l ---

    @cached_property
    def log_q_c(self) -> Values:
        """-t / (1 - P)."""
        return -self.t / self.q

    @cached_property
    def log_p_l(self) -> Values:
        """C (1 - c) t / P."""
        return self.c * (1 - self.c) * self.log_p_c

    @cached_property
    def log_q_l(self) -> Values:
        """-c (1 - c) t / (1 - P)."""
        return self.c * (1 - self.c) * self.log_q_c

    @cached_property
    def log_p_zl(self) -> Values:
        """-c (1 - c) u s t / P^2."""
        return -self.c * (1 - self.c) * self.u * self.s / self.p * self.log_p_c

    @cached_property
    def log_q_ll(self) -> Values:
        """log_q_l (1 - 2 c - log_q_l)."""
        return self.log_q_l * (1 - 2 * self.c - self.log_q_l)

    # --- by the logit v of u, du / dv = u (1 - u) ---

    @cached_property
    def log_p_v(self) -> Values:
        """U (1 - u) s / P."""
        return self.u * (1 - self.u) * self.s / self.p

    @cached_property
    def log_q_v(self) -> Values:
        """-u (1 - u) s / (1 - P)."""
        return -self.u * (1 - self.u) * self.s / self.q

    # --- expected information of one response ---

    @cached_property
    def information_zz(self) -> Values:
        """P_z^2 / (P (1 - P))."""
        return -self.log_p_z * self.log_q_z
