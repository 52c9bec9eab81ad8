//! Medians, ranges and intervals of few figures.

/// The middle value; of two middle ones their mean. Not a number when there is none.
pub(super) fn median(values: &[f64]) -> f64 {
    quantile(values, 0.5)
}

/// The value below which the share `part` (0 to 1) of `values` lies, between two of them in
/// proportion.
pub(super) fn quantile(values: &[f64], part: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let Some(last) = sorted.len().checked_sub(1) else {
        return f64::NAN;
    };
    #[allow(clippy::cast_precision_loss)]
    let place = part.clamp(0.0, 1.0) * last as f64;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let index = place as usize;
    #[allow(clippy::cast_precision_loss)]
    let beyond = place - index as f64;
    let at = |index: usize| sorted.get(index.min(last)).copied().unwrap_or(f64::NAN);
    let (low, high) = (at(index), at(index + 1));
    low + (high - low) * beyond
}

/// The lowest and the highest.
pub(super) fn range(values: &[f64]) -> (f64, f64) {
    let low = values.iter().copied().fold(f64::NAN, f64::min);
    let high = values.iter().copied().fold(f64::NAN, f64::max);
    (low, high)
}

/// The mean ratio of pairs and its 95 % interval by Student's t.
///
/// Each pair counts by its difference over its mean. Near 1 that is the ratio's logarithm, and it
/// has no function of libm in it, which the binary is not to need.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct PairedRatio {
    pub(super) ratio: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

/// `first / second` of each pair taken together; none for fewer than two pairs.
pub(super) fn paired_ratio(first: &[f64], second: &[f64]) -> Option<PairedRatio> {
    let apart: Vec<f64> = first
        .iter()
        .zip(second)
        .map(|(first, second)| 2.0 * (first - second) / (first + second))
        .collect();
    if apart.len() < 2 {
        return None;
    }
    #[allow(clippy::cast_precision_loss)]
    let count = apart.len() as f64;
    let mean = apart.iter().sum::<f64>() / count;
    let variance = apart.iter().map(|d| (d - mean).powi(2)).sum::<f64>() / (count - 1.0);
    let half = student_t(count - 1.0) * (variance / count).sqrt();
    let ratio = |apart: f64| (2.0 + apart) / (2.0 - apart);
    Some(PairedRatio {
        ratio: ratio(mean),
        low: ratio(mean - half),
        high: ratio(mean + half),
    })
}

/// The 97.5 % point of Student's t distribution with `freedom` degrees of freedom: the normal
/// one with Cornish and Fisher's expansion, right to 1 % from 3 degrees on.
fn student_t(freedom: f64) -> f64 {
    match freedom {
        f if f < 1.5 => 12.706,
        f if f < 2.5 => 4.303,
        f => {
            let z = 1.959_964_f64;
            let first = (z.powi(3) + z) / 4.0;
            let second = (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0;
            let third = (3.0 * z.powi(7) + 19.0 * z.powi(5) + 17.0 * z.powi(3) - 15.0 * z) / 384.0;
            z + first / f + second / f.powi(2) + third / f.powi(3)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_quantiles() {
        assert!((median(&[3.0, 1.0, 2.0]) - 2.0).abs() < 1e-9);
        assert!((median(&[4.0, 1.0, 2.0, 3.0]) - 2.5).abs() < 1e-9);
        assert!((quantile(&[0.0, 10.0], 0.99) - 9.9).abs() < 1e-9);
        assert!((quantile(&[7.0], 1.0) - 7.0).abs() < 1e-9);
        assert!(median(&[]).is_nan());
        assert_eq!(range(&[2.0, 1.0, 3.0]), (1.0, 3.0));
    }

    #[test]
    fn students_t_is_near_the_tables() {
        for (freedom, table) in [
            (1.0, 12.706),
            (3.0, 3.182),
            (5.0, 2.571),
            (29.0, 2.045),
            (1000.0, 1.962),
        ] {
            let t = student_t(freedom);
            assert!((t / table - 1.0).abs() < 0.01, "{freedom}: {t}");
        }
    }

    #[test]
    fn an_interval_of_pairs_holds_their_ratio_and_narrows_with_them() {
        let first: Vec<f64> = (0..40).map(|n| 1.1 + 0.01 * f64::from(n % 5)).collect();
        let second = vec![1.0; 40];
        let all = paired_ratio(&first, &second).unwrap();
        let few = paired_ratio(&first[..5], &second[..5]).unwrap();
        assert!(all.low < all.ratio && all.ratio < all.high);
        assert!((all.ratio - 1.12).abs() < 0.001);
        assert!(all.high - all.low < few.high - few.low);
        assert_eq!(paired_ratio(&first[..1], &second), None);
    }
}
