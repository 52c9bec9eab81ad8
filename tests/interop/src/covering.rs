//! Covering arrays: few rows that contain each pair of values of any two factors.
//!
//! The algorithm is greedy and deterministic, so that each run tests the same rows: a row starts
//! from the first uncovered pair, and each further factor gets the value that covers most new
//! pairs.

/// A factor and its value.
pub type Choice = (usize, usize);

/// Rows, one value per factor, that contain every pair that `allowed` permits.
///
/// `allowed` is called for two different factors; it must be possible to complete every allowed
/// pair to a row.
pub fn pairs(sizes: &[usize], allowed: impl Fn(Choice, Choice) -> bool) -> Vec<Vec<usize>> {
    let mut missing = all_pairs(sizes, &allowed);
    let mut rows = Vec::new();
    while let Some(&(one, other)) = missing.first() {
        let row = complete(sizes, &allowed, &missing, one, other);
        if row.len() < sizes.len() {
            // The pair cannot be completed: no row can contain it.
            missing.remove(0);
            continue;
        }
        missing.retain(|(a, b)| !(row[a.0] == a.1 && row[b.0] == b.1));
        rows.push(row);
    }
    rows
}

/// Every row that `allowed` permits.
pub fn product(sizes: &[usize], allowed: impl Fn(Choice, Choice) -> bool) -> Vec<Vec<usize>> {
    let mut rows: Vec<Vec<usize>> = vec![Vec::new()];
    for (factor, &size) in sizes.iter().enumerate() {
        let mut longer = Vec::new();
        for row in &rows {
            for value in 0..size {
                if fits(row, (factor, value), &allowed) {
                    let mut next = row.clone();
                    next.push(value);
                    longer.push(next);
                }
            }
        }
        rows = longer;
    }
    rows
}

fn fits(row: &[usize], choice: Choice, allowed: &impl Fn(Choice, Choice) -> bool) -> bool {
    row.iter()
        .enumerate()
        .all(|(factor, &value)| allowed((factor, value), choice))
}

fn all_pairs(sizes: &[usize], allowed: &impl Fn(Choice, Choice) -> bool) -> Vec<(Choice, Choice)> {
    let mut pairs = Vec::new();
    for first in 0..sizes.len() {
        for second in first + 1..sizes.len() {
            for a in 0..sizes[first] {
                for b in 0..sizes[second] {
                    if allowed((first, a), (second, b)) {
                        pairs.push(((first, a), (second, b)));
                    }
                }
            }
        }
    }
    pairs
}

fn complete(
    sizes: &[usize],
    allowed: &impl Fn(Choice, Choice) -> bool,
    missing: &[(Choice, Choice)],
    one: Choice,
    other: Choice,
) -> Vec<usize> {
    let mut chosen: Vec<Choice> = vec![one, other];
    for (factor, &size) in sizes.iter().enumerate() {
        if factor == one.0 || factor == other.0 {
            continue;
        }
        let gain = |value: usize| {
            missing
                .iter()
                .filter(|(a, b)| {
                    (*a == (factor, value) && chosen.contains(b))
                        || (*b == (factor, value) && chosen.contains(a))
                })
                .count()
        };
        // Each later factor must still have a permitted value.
        let possible = |value: usize| {
            let choice = (factor, value);
            chosen.iter().all(|&taken| allowed(taken, choice))
                && sizes.iter().enumerate().all(|(later, &count)| {
                    later == factor
                        || chosen.iter().any(|taken| taken.0 == later)
                        || (0..count).any(|option| {
                            allowed(choice, (later, option))
                                && chosen.iter().all(|&taken| allowed(taken, (later, option)))
                        })
                })
        };
        let best = (0..size)
            .filter(|&value| possible(value))
            .max_by_key(|&value| (gain(value), core::cmp::Reverse(value)));
        if let Some(value) = best {
            chosen.push((factor, value));
        }
    }
    chosen.sort_unstable();
    chosen.into_iter().map(|(_, value)| value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Value 0 of factor 3 goes with the first two values of factor 2, the others with the rest.
    fn rule(one: Choice, other: Choice) -> bool {
        match (one.min(other), one.max(other)) {
            ((2, a), (3, b)) => (a < 2) == (b == 0),
            _ => true,
        }
    }

    #[test]
    fn every_allowed_pair_stands_in_a_row_and_no_other() {
        let sizes = [11, 10, 6, 9, 2];
        let rows = pairs(&sizes, rule);
        for (a, b) in all_pairs(&sizes, &rule) {
            assert!(
                rows.iter().any(|row| row[a.0] == a.1 && row[b.0] == b.1),
                "{a:?} {b:?}"
            );
        }
        for row in &rows {
            assert_eq!(row.len(), sizes.len());
            for factor in 0..row.len() {
                assert!(
                    fits(&row[..factor], (factor, row[factor]), &rule),
                    "{row:?}"
                );
            }
        }
        assert!(rows.len() >= 110 && rows.len() < 150, "{} rows", rows.len());
        assert_eq!(rows, pairs(&sizes, rule));
    }

    #[test]
    fn the_product_is_whole() {
        let free = |_, _| true;
        assert_eq!(product(&[2, 3, 4], free).len(), 24);
        assert_eq!(product(&[1, 1, 6, 9, 1], rule).len(), 2 + 4 * 8);
        assert_eq!(pairs(&[1, 1, 1], free).len(), 1);
    }

    #[test]
    fn a_factor_without_values_gives_no_rows() {
        assert!(product(&[2, 0], |_, _| true).is_empty());
        assert!(pairs(&[2, 0, 3], |_, _| true).is_empty());
    }
}
