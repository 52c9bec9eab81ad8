//! What our figures stand beside: the machine's `openssl speed`, and this program itself with
//! the library's CPU features switched off.

use std::process::{Command, Stdio};

/// Takes features away from the library of the process that has it in its environment.
const FEATURES_VARIABLE: &str = "OPENSSL_ia32cap";
/// All of them.
const NO_FEATURES: &str = "~0xffffffffffffffff:~0xffffffffffffffff";

/// Whether this process is to measure for another, or was told which features to use: then it
/// asks nobody else.
pub(super) fn is_alone() -> bool {
    std::env::var_os(FEATURES_VARIABLE).is_some()
}

/// Operations a second by `openssl speed` of one of its algorithms.
pub(super) fn openssl(algorithm: &str) -> Option<Vec<f64>> {
    let output = Command::new("openssl")
        .args(["speed", "-seconds", "1", "-mr", algorithm])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    parse_openssl(&String::from_utf8_lossy(&output.stdout))
}

/// The version of that program.
pub(super) fn openssl_version() -> Option<String> {
    let output = Command::new("openssl")
        .arg("version")
        .stdin(Stdio::null())
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let mut words = text.split_whitespace();
    let version = words.nth(1)?;
    Some(format!("openssl {version}"))
}

/// The last line, for machines: `+F2` and more, with two rates for signatures, or a rate and a
/// time for key exchanges.
fn parse_openssl(text: &str) -> Option<Vec<f64>> {
    let line = text.lines().rev().find(|line| line.starts_with("+F"))?;
    let fields: Vec<&str> = line.split(':').collect();
    let [.., first, second] = fields.as_slice() else {
        return None;
    };
    let (first, second): (f64, f64) = (first.parse().ok()?, second.parse().ok()?);
    let pair = matches!(fields.first(), Some(&("+F2" | "+F3" | "+F4" | "+F6")));
    // Some versions print seconds instead.
    let rate = |figure: f64| if figure < 1.0 { 1.0 / figure } else { figure };
    let rates = if pair {
        vec![rate(first), rate(second)]
    } else {
        vec![rate(first.max(second))]
    };
    rates.iter().all(|rate| rate.is_finite()).then_some(rates)
}

/// Rates without CPU features.
#[derive(Debug, Default)]
pub(super) struct Baseline(Vec<(String, String, f64)>);

impl Baseline {
    /// Runs this program on these algorithms, each by its whole name.
    pub(super) fn measure(names: &[&str]) -> Self {
        if !cfg!(target_arch = "x86_64") {
            return Self::default();
        }
        let output = std::env::current_exe().and_then(|program| {
            Command::new(program)
                .args(["speed", "--json"])
                .args(names)
                .env(FEATURES_VARIABLE, NO_FEATURES)
                .stdin(Stdio::null())
                .stderr(Stdio::null())
                .output()
        });
        let text = output.map(|output| output.stdout).unwrap_or_default();
        Self::parse(&String::from_utf8_lossy(&text))
    }

    /// Of the report that this program prints; empty where it is none.
    pub(super) fn parse(report: &str) -> Self {
        let report: serde_json::Value = serde_json::from_str(report).unwrap_or_default();
        let rows = report["operations"].as_array().into_iter().flatten();
        let rows = rows.filter_map(|row| {
            let text = |key: &str| Some(row.get(key)?.as_str()?.to_owned());
            let rate = row.get("per_second")?.as_f64()?;
            Some((text("name")?, text("operation")?, rate))
        });
        Self(rows.collect())
    }

    pub(super) fn rate(&self, name: &str, operation: &str) -> Option<f64> {
        let mut rows = self.0.iter();
        rows.find(|row| row.0 == name && row.1 == operation)
            .map(|row| row.2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_of_openssl_speed_are_understood() {
        for (text, rates) in [
            (
                "+F2:2:2048:2834.693878:50494.736842\n",
                Some(vec![2834.693878, 50494.736842]),
            ),
            (
                "x\n+F4:3:256:42437.755102:12829.292929\n",
                Some(vec![42437.755102, 12829.292929]),
            ),
            (
                "+F5:22:253:30064.210526:0.000033\n",
                Some(vec![30064.210526]),
            ),
            (
                "+F6:0:253:Ed25519:26490.816327:9385.869565",
                Some(vec![26490.816327, 9385.869565]),
            ),
            ("+F8:0:2048:3556.122449:0.000281", Some(vec![3556.122449])),
            ("+F2:2:2048:0.000250:0.000020", Some(vec![4000.0, 50000.0])),
            ("+F2:2:2048:0.000000:0.000020", None),
            ("+F2:x", None),
            ("speed: unknown algorithm", None),
            ("", None),
        ] {
            match (parse_openssl(text), rates) {
                (Some(got), Some(expected)) => {
                    assert_eq!(got.len(), expected.len(), "{text}");
                    let near = got
                        .iter()
                        .zip(&expected)
                        .all(|(a, b)| (a / b - 1.0).abs() < 1e-6);
                    assert!(near, "{text}: {got:?}");
                }
                (got, expected) => assert_eq!(got, expected, "{text}"),
            }
        }
    }
}
