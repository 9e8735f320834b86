//! Tail sums and quantiles, where statrs is not exact enough.
//!
//! statrs' incomplete beta function takes at most 140 terms of its fraction and its factor in front
//! from differences of log-gammas, and its beta quantile begins no nearer than 1e-4 to the ends: at
//! a million samples the error is far above 1e-9. Here the factor comes from deviances, whose
//! rounding does not grow with the counts, and the fraction goes on until it stands still.

use statrs::function::erf::erfc;

use super::{count, float};

/// Keeps a denominator of the fraction from being 0.
const TINY: f64 = 1e-300;

/// Upper tail of the standard normal distribution.
///
/// Through statrs' complementary error function, which keeps its relative precision in the tail.
pub(super) fn normal_upper(z: f64) -> f64 {
    erfc(z / std::f64::consts::SQRT_2) / 2.0
}

/// The regularised incomplete beta function: P(X ≤ x) of a beta distribution.
pub(super) fn beta_cdf(a: f64, b: f64, x: f64) -> f64 {
    if x <= 0.0 {
        0.0
    } else if x >= 1.0 {
        1.0
    } else if x < (a + 1.0) / (a + b + 2.0) {
        beta_kernel(a, b, x) * fraction(a, b, x) / a
    } else {
        1.0 - beta_kernel(a, b, x) * fraction(b, a, 1.0 - x) / b
    }
}

/// Upper tail P(X ≥ k) of the binomial distribution of `n` draws with share `p`.
pub(super) fn binomial_upper(n: u64, p: f64, k: u64) -> f64 {
    if k == 0 {
        1.0
    } else if k > n {
        0.0
    } else {
        beta_cdf(float(k), float(n - k) + 1.0, p)
    }
}

/// The x below which a beta distribution has the probability `p`; NaN where there is none.
pub(super) fn beta_quantile(a: f64, b: f64, p: f64) -> f64 {
    if !(a > 0.0 && b > 0.0 && (0.0..=1.0).contains(&p)) || a.is_infinite() || b.is_infinite() {
        return f64::NAN;
    }
    if p == 0.0 || p == 1.0 {
        return p;
    }
    // Newton's steps, and halving wherever one would leave the bracket.
    let (mut low, mut high) = (0.0, 1.0);
    let mut x = a / (a + b);
    for _ in 0..400 {
        let over = beta_cdf(a, b, x) - p;
        if over == 0.0 {
            return x;
        }
        if over > 0.0 {
            high = x;
        } else {
            low = x;
        }
        let step = over * x * (1.0 - x) / beta_kernel(a, b, x);
        let newton = x - step;
        let next = if newton > low && newton < high {
            newton
        } else {
            low + (high - low) / 2.0
        };
        if (next - x).abs() <= f64::EPSILON * x {
            return next;
        }
        x = next;
    }
    x
}

/// The t below whose absolute value Student's distribution has the probability `confidence`.
pub(super) fn student_two_sided(degrees: f64, confidence: f64) -> f64 {
    // t² / (t² + degrees) is beta distributed.
    let share = beta_quantile(0.5, degrees / 2.0, confidence);
    (degrees * share / (1.0 - share)).sqrt()
}

/// x^a (1 − x)^b / B(a, b).
///
/// Loader's way (2000, "Fast and accurate computation of binomial probabilities"): Stirling's
/// formula with its error term, and the exponent as two deviances, so that nothing large cancels.
fn beta_kernel(a: f64, b: f64, x: f64) -> f64 {
    let n = a + b;
    let exponent = stirling_error(n)
        - stirling_error(a)
        - stirling_error(b)
        - deviance(a, n * x)
        - deviance(b, n * (1.0 - x));
    (a * b / (n * std::f64::consts::TAU)).sqrt() * exponent.exp()
}

/// ln Γ(z + 1) less Stirling's formula for it.
fn stirling_error(mut z: f64) -> f64 {
    let mut error = 0.0;
    while z < 16.0 {
        error += (z + 0.5) * (1.0 / z).ln_1p() - 1.0;
        z += 1.0;
    }
    let z2 = z * z;
    let series = [
        1.0 / 12.0,
        -1.0 / 360.0,
        1.0 / 1260.0,
        -1.0 / 1680.0,
        1.0 / 1188.0,
        -691.0 / 360_360.0,
    ];
    let sum = series.iter().rev().fold(0.0, |sum, term| sum / z2 + term);
    error + sum / z
}

/// x ln(x / m) + m − x without cancellation where x is near m.
fn deviance(x: f64, m: f64) -> f64 {
    let apart = x - m;
    if apart.abs() >= 0.1 * (x + m) {
        return x * (x / m).ln() - apart;
    }
    // ln(x / m) = 2 artanh(v), as a series in v.
    let v = apart / (x + m);
    let v2 = v * v;
    let mut sum = apart * v;
    let mut power = 2.0 * x * v;
    for odd in (3..).step_by(2) {
        power *= v2;
        let more = sum + power / f64::from(odd);
        if more == sum || odd > 99 {
            break;
        }
        sum = more;
    }
    sum
}

/// The continued fraction of the incomplete beta function, by Lentz's method.
fn fraction(a: f64, b: f64, x: f64) -> f64 {
    let apart_from_zero = |value: f64| if value.abs() < TINY { TINY } else { value };
    // It stands still after some multiple of the root of the larger parameter.
    let most = 1000 + count(20.0 * a.max(b).sqrt());
    let mut c = 1.0;
    let mut d = 1.0 / apart_from_zero(1.0 - (a + b) * x / (a + 1.0));
    let mut value = d;
    for step in 1..=most {
        let m = float(step);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        d = 1.0 / apart_from_zero(1.0 + even * d);
        c = apart_from_zero(1.0 + even / c);
        value *= d * c;
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        d = 1.0 / apart_from_zero(1.0 + odd * d);
        c = apart_from_zero(1.0 + odd / c);
        let change = d * c;
        value *= change;
        if (change - 1.0).abs() <= f64::EPSILON {
            break;
        }
    }
    value
}

/// P(X ≥ from) of a distribution on `low..=high` with one mode, from the ratios of neighbouring
/// probabilities, `ratio(x)` = P(x + 1) / P(x).
///
/// Probabilities are counted in units of that of the mode and summed on both sides until they no
/// longer matter, so that neither factorials nor their logarithms are needed, and a tiny tail keeps
/// its relative precision. The number of steps is some multiple of the standard deviation.
pub(super) fn upper_tail(
    (low, high): (u64, u64),
    mode: u64,
    from: u64,
    ratio: impl Fn(u64) -> f64,
) -> f64 {
    const NOTHING: f64 = 1e-20;
    if from <= low {
        return 1.0;
    }
    if from > high {
        return 0.0;
    }
    let (mut tail, mut body) = if mode >= from { (1.0, 0.0) } else { (0.0, 1.0) };
    let mut weight = 1.0;
    for x in mode..high {
        weight *= ratio(x);
        if weight == 0.0 || (x + 1 >= from && weight <= NOTHING * tail) {
            break;
        }
        if x + 1 >= from {
            tail += weight;
        } else {
            body += weight;
        }
    }
    weight = 1.0;
    for x in (low..mode).rev() {
        weight /= ratio(x);
        if weight <= NOTHING * (tail + body) {
            break;
        }
        if x >= from {
            tail += weight;
        } else {
            body += weight;
        }
    }
    tail / (tail + body)
}
