//! Shared by the readers of ssh_config and sshd_config: conversion of bytes to text, the check of a
//! keyword's support, and the wording of errors.

use std::borrow::Cow;

use crate::error::{Place, Severity};
use crate::printing::canonical;
use crate::value::{Support, Value};

/// How to treat a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Judgement {
    /// Use it.
    Keep,
    /// Use it, and warn with this text.
    Warn(&'static str),
    /// Refuse the configuration.
    Refuse,
    /// Ignore it; log that at this severity, if any, with this word.
    Drop(Option<Severity>, &'static str),
}

/// Decides about a value by its keyword's support.
pub(crate) fn judge(support: Support, value: &Value) -> Judgement {
    let harmless = |list: &[&str]| {
        let text = canonical(value);
        list.contains(&text.as_str())
    };
    match support {
        Support::Carried | Support::Fulfilled => Judgement::Keep,
        Support::Enabling(list) if harmless(list) => Judgement::Keep,
        Support::Enabling(_) => Judgement::Warn("is not supported yet; ignored"),
        Support::Partly(list, _) if harmless(list) => Judgement::Keep,
        Support::Partly(_, text) => Judgement::Warn(text),
        Support::Restricting(list) if harmless(list) => Judgement::Keep,
        Support::Restricting(_) => Judgement::Refuse,
        Support::Deprecated => Judgement::Drop(Some(Severity::Debug), "Deprecated"),
        Support::Unsupported => Judgement::Drop(Some(Severity::Debug), "Unsupported"),
        Support::Ignored => Judgement::Drop(None, ""),
    }
}

/// Converts a line to text. Comments may contain any bytes; other lines must be UTF-8 without NUL.
///
/// # Errors
/// The error text for the user.
pub(crate) fn text_of(line: &[u8]) -> Result<Cow<'_, str>, &'static str> {
    match std::str::from_utf8(line) {
        Ok(text) if text.contains('\0') => Err("line contains a NUL"),
        Ok(text) => Ok(Cow::Borrowed(text)),
        Err(_) if line.trim_ascii_start().first() == Some(&b'#') => Ok(Cow::Borrowed("")),
        Err(_) => Err("line is not UTF-8"),
    }
}

/// OpenSSH's error text for an unknown keyword.
pub(crate) fn bad_option(place: &Place, keyword: &str) -> String {
    format!(
        "{}: line {}: Bad configuration option: {}",
        place.file,
        place.line,
        escape::one_line(keyword)
    )
}
