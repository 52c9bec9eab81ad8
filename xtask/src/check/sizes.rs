//! How long files and functions are, and how many fields a struct has.

use std::path::Path;

use super::code::{blocks, fields, without_literals};
use super::sources::named_files;

/// Limit on a source file, lines.
const MAX_FILE_LINES: usize = 800;
/// Limit on a function, lines from `fn` to the closing brace.
const MAX_FUNCTION_LINES: usize = 100;
/// Limit on a struct, fields. What a macro makes from a table does not count.
const MAX_FIELDS: usize = 20;

/// Longer functions: one flat `match`, one flat list of cases, or one loop whose macros use its variables.
const EXCEPTIONS: &[(&str, &str)] = &[
    ("crates/compress/src/deflate/decoder/fast.rs", "fast_body"),
    (
        "crates/config/src/forms/tests.rs",
        "each_form_reads_what_the_manual_says",
    ),
    (
        "crates/crypto/src/mac/hmac_many/tests.rs",
        "rfc_4231_and_rfc_2202_come_out_of_every_kernel",
    ),
    ("crates/server/src/auth/login.rs", "authenticate"),
    ("crates/server/src/session/serve.rs", "event"),
    ("crates/sys/tests/roles/cage.rs", "forbidden"),
    ("crates/transfer/tests/adversary/mod.rs", "answer"),
    ("tests/fuzz/src/seeds.rs", "payloads"),
];

/// One line for each broken rule.
pub(super) fn broken(root: &Path) -> Vec<String> {
    let mut lines = Vec::new();
    for (shown, path) in named_files(root) {
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let count = text.lines().count();
        if count > MAX_FILE_LINES {
            lines.push(format!(
                "{shown}: {count} lines, more than {MAX_FILE_LINES}"
            ));
        }
        lines.extend(broken_items(&shown, &without_literals(&text)));
    }
    lines
}

fn broken_items(shown: &str, code: &str) -> Vec<String> {
    let mut lines = Vec::new();
    for function in blocks(code, "fn") {
        let is_exempt = EXCEPTIONS.contains(&(shown, function.name));
        if is_exempt && function.lines <= MAX_FUNCTION_LINES {
            lines.push(format!(
                "{shown}: {} is short: remove its exception",
                function.name
            ));
        } else if !is_exempt && function.lines > MAX_FUNCTION_LINES {
            lines.push(format!(
                "{shown}:{}: {} has {} lines, more than {MAX_FUNCTION_LINES}",
                function.line, function.name, function.lines
            ));
        }
    }
    for item in blocks(code, "struct") {
        let count = fields(item.body);
        if count > MAX_FIELDS {
            lines.push(format!(
                "{shown}:{}: {} has {count} fields, more than {MAX_FIELDS}",
                item.line, item.name
            ));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_large_is_named() {
        let long = format!(
            "fn f() {{\n{}}}\n",
            "    g();\n".repeat(MAX_FUNCTION_LINES - 2)
        );
        assert!(broken_items("a.rs", &long).is_empty());
        let longer = long.replacen("g();", "g();\n", 1);
        assert_eq!(
            broken_items("a.rs", &longer),
            ["a.rs:1: f has 101 lines, more than 100"]
        );
        let wide = format!("struct S {{\n{}}}\n", "    f: u8,\n".repeat(MAX_FIELDS));
        assert!(broken_items("a.rs", &wide).is_empty());
        let wider = wide.replacen("f: u8,", "f: u8,\n    g: u8,", 1);
        assert_eq!(
            broken_items("a.rs", &wider),
            ["a.rs:1: S has 21 fields, more than 20"]
        );
    }
}
