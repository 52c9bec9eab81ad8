//! Circles of modules inside the crates: sibling modules that need each other.
//!
//! A module needs a sibling if its code, or that of a module below it, names an item of the sibling or of
//! a module below that, itself or by an import of a module between. A module's own parents do not count: an item
//! is where its users find it. Tests do not count.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::code::without_literals;
use super::names::is_product;
use super::sources::named_files;

/// Limit on the circles of all crates together.
const MAX_CIRCLES: usize = 6;
/// Crates that have none.
const WITHOUT: &[&str] = &["client", "proto", "transfer"];

/// The path of a module in its crate; empty for the crate's root.
type ModulePath = Vec<String>;

/// The modules of a crate.
#[derive(Default)]
struct Modules {
    /// The code of each, without tests.
    code: BTreeMap<ModulePath, String>,
    /// The names that each imports, with their paths.
    imports: BTreeMap<ModulePath, BTreeMap<String, ModulePath>>,
}

/// The module of a file below `src`.
fn module_of(file: &str) -> ModulePath {
    let mut path: ModulePath = file
        .trim_end_matches(".rs")
        .split('/')
        .map(str::to_owned)
        .collect();
    if path
        .last()
        .is_some_and(|last| ["mod", "lib", "main"].contains(&last.as_str()))
    {
        path.pop();
    }
    path
}

/// The paths that begin with `crate`, `self` or `super`, with those in braces.
fn paths_in(code: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for start in ["crate", "self", "super"] {
        for (at, _) in code.match_indices(&format!("{start}::")) {
            let before = code[..at].chars().next_back();
            if !before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':' || c == '$') {
                expand(&mut code[at..].chars().peekable(), &[], &mut found);
            }
        }
    }
    found
}

/// The paths of an import's tree.
fn tree_of(tree: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    expand(&mut tree.chars().peekable(), &[], &mut found);
    found
}

/// Reads one path, or the paths of a tree in braces, after `prefix`.
fn expand(
    code: &mut std::iter::Peekable<std::str::Chars<'_>>,
    prefix: &[String],
    found: &mut Vec<Vec<String>>,
) {
    let mut path = prefix.to_vec();
    loop {
        while code.next_if(|c| c.is_whitespace()).is_some() {}
        let mut word = String::new();
        while let Some(c) = code.next_if(|c| c.is_alphanumeric() || *c == '_') {
            word.push(c);
        }
        if !word.is_empty() {
            path.push(word);
        }
        match code.peek() {
            Some(':') => {
                code.next();
                if code.next_if_eq(&':').is_none() {
                    break;
                }
            }
            Some('{') if path.len() > prefix.len() => {
                while let Some(c) = code.next() {
                    if c == '}' {
                        return;
                    }
                    expand(code, &path, found);
                    if code.peek().is_none_or(|c| !",}".contains(*c)) {
                        return;
                    }
                }
                return;
            }
            _ => break,
        }
    }
    // The new name of a renamed item.
    while code
        .next_if(|c| c.is_whitespace() || c.is_alphanumeric() || *c == '_')
        .is_some()
    {}
    found.push(path);
}

impl Modules {
    fn add(&mut self, path: ModulePath, text: &str) {
        let code = without_literals(text);
        let end = code.find("#[cfg(test)]\nmod tests {").unwrap_or(code.len());
        let code = code[..end].to_owned();
        let mut imports = BTreeMap::new();
        for statement in code.split(';') {
            let tree = statement.rsplit_once("use ").map(|(_, tree)| tree);
            for import in tree
                .filter(|tree| !tree.contains('('))
                .map(tree_of)
                .into_iter()
                .flatten()
            {
                // Without one of these words a path begins with a module below this one, or a crate.
                let target = absolute(&path, &import);
                if let (Some(name), Some(target)) = (import.last().cloned(), target) {
                    imports.insert(name, target);
                }
            }
        }
        self.imports.insert(path.clone(), imports);
        self.code.insert(path, code);
    }

    /// The module that an absolute path leads to, through imports.
    fn leads_to(&self, path: &[String], turns: usize) -> ModulePath {
        let mut module = ModulePath::new();
        for (index, word) in path.iter().enumerate() {
            let mut below = module.clone();
            below.push(word.clone());
            if self.code.contains_key(&below) {
                module = below;
                continue;
            }
            let import = self.imports.get(&module).and_then(|names| names.get(word));
            return match import {
                Some(target) if turns > 0 => {
                    let further = [target, &path[index + 1..]].concat();
                    self.leads_to(&further, turns - 1)
                }
                _ => module,
            };
        }
        module
    }

    /// For each parent, which child needs which.
    fn needs(&self) -> BTreeMap<ModulePath, BTreeMap<String, BTreeSet<String>>> {
        let mut needs: BTreeMap<ModulePath, BTreeMap<String, BTreeSet<String>>> = BTreeMap::new();
        for (from, code) in &self.code {
            for path in paths_in(code) {
                let Some(path) = absolute(from, &path) else {
                    continue;
                };
                let to = self.leads_to(&path, 8);
                let same = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
                if let (Some(user), Some(used)) = (from.get(same), to.get(same)) {
                    let children = needs.entry(from[..same].to_vec()).or_default();
                    children
                        .entry(user.clone())
                        .or_default()
                        .insert(used.clone());
                }
            }
        }
        needs
    }
}

/// The path from the crate's root of a path that `module` names.
fn absolute(module: &[String], path: &[String]) -> Option<ModulePath> {
    let mut base = module.to_vec();
    let mut rest = path;
    while let Some((first, further)) = rest.split_first() {
        match first.as_str() {
            "crate" => base.clear(),
            "self" => {}
            "super" => drop(base.pop()?),
            _ => break,
        }
        rest = further;
    }
    Some([&base[..], rest].concat())
}

/// All that `from` needs, at once or through others.
fn reach(from: &str, needs: &BTreeMap<String, BTreeSet<String>>) -> BTreeSet<String> {
    let mut reached = BTreeSet::new();
    let mut open = vec![from.to_owned()];
    while let Some(next) = open.pop() {
        for needed in needs.get(&next).into_iter().flatten() {
            if reached.insert(needed.clone()) {
                open.push(needed.clone());
            }
        }
    }
    reached
}

/// The circles of a crate, each with its parent and members.
fn circles(modules: &Modules) -> Vec<(ModulePath, BTreeSet<String>)> {
    let mut found = Vec::new();
    for (parent, needs) in modules.needs() {
        let reached: BTreeMap<_, _> = needs
            .keys()
            .map(|child| (child.clone(), reach(child, &needs)))
            .collect();
        let mut seen = BTreeSet::new();
        for (child, of_child) in &reached {
            if of_child.contains(child) && !seen.contains(child) {
                let returns = |other: &&String| {
                    reached
                        .get(*other)
                        .is_some_and(|reached| reached.contains(child))
                };
                let circle: BTreeSet<String> = of_child.iter().filter(returns).cloned().collect();
                seen.extend(circle.iter().cloned());
                found.push((parent.clone(), circle));
            }
        }
    }
    found
}

/// One line for each broken rule.
pub(super) fn broken(root: &Path) -> Vec<String> {
    let mut crates: BTreeMap<String, Modules> = BTreeMap::new();
    for (shown, path) in named_files(root) {
        let Some((name, file)) = shown
            .strip_prefix("crates/")
            .and_then(|rest| rest.split_once("/src/"))
        else {
            continue;
        };
        if is_product(&shown) {
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            let modules = crates.entry(name.to_owned()).or_default();
            modules.add(module_of(file), &text);
        }
    }
    let mut lines = Vec::new();
    let mut all = Vec::new();
    for (name, modules) in &crates {
        for (parent, circle) in circles(modules) {
            let place = [&[name.clone()][..], &parent].concat().join("::");
            let members: Vec<&str> = circle.iter().map(String::as_str).collect();
            let line = format!("{place}: a circle of modules: {}", members.join(", "));
            if WITHOUT.contains(&name.as_str()) {
                lines.push(line.clone());
            }
            all.push(line);
        }
    }
    if all.len() > MAX_CIRCLES {
        lines.push(format!(
            "{} circles of modules, more than {MAX_CIRCLES}: {}",
            all.len(),
            all.join("; ")
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crate_of(files: &[(&str, &str)]) -> Modules {
        let mut modules = Modules::default();
        for (file, text) in files {
            modules.add(module_of(file), text);
        }
        modules
    }

    fn shown(files: &[(&str, &str)]) -> Vec<String> {
        let show = |(parent, circle): &(ModulePath, BTreeSet<String>)| {
            let members: Vec<&str> = circle.iter().map(String::as_str).collect();
            format!("{}: {}", parent.join("::"), members.join(" "))
        };
        circles(&crate_of(files)).iter().map(show).collect()
    }

    #[test]
    fn paths_are_read_with_their_braces() {
        let code = "use crate::{a::{self, B as C}, d}; my_crate::x(); f(super::super::e::G::new())";
        let mut found: Vec<String> = paths_in(code).iter().map(|path| path.join("::")).collect();
        found.sort();
        let paths = [
            "crate::a::B",
            "crate::a::self",
            "crate::d",
            "super::super::e::G::new",
        ];
        for path in paths {
            assert!(found.contains(&path.to_owned()), "{path}: {found:?}");
        }
        assert!(!found.iter().any(|path| path.contains('x')), "{found:?}");
    }

    #[test]
    fn a_circle_is_found_on_each_level() {
        let files = [
            ("lib.rs", "mod a;\nmod b;\nmod c;\n"),
            ("a/mod.rs", "use crate::b::B;\nmod x;\nmod y;\n"),
            ("a/x.rs", "use super::y::{Y, Z};\n"),
            ("a/y.rs", "fn f() { super::x::g() }\n"),
            ("b.rs", "use super::c;\n"),
            ("c.rs", "use crate::{b, a::x};\n"),
        ];
        assert_eq!(shown(&files), [": a b c", "a: x y"]);
    }

    #[test]
    fn an_import_of_the_parent_leads_to_its_source() {
        let files = [
            ("lib.rs", "mod a;\nmod b;\nuse b::B;\npub use self::a::A;\n"),
            ("a.rs", "use crate::B;\n"),
            ("b.rs", "use crate::A;\n"),
        ];
        assert_eq!(shown(&files), [": a b"]);
    }

    #[test]
    fn parents_comments_and_tests_make_no_circle() {
        let files = [
            ("lib.rs", "mod a;\nmod b;\nuse a::A;\npub struct Root;\n"),
            ("a.rs", "use crate::{Root, b::B};\n"),
            (
                "b.rs",
                "// crate::a\n#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}\n",
            ),
        ];
        assert_eq!(shown(&files), [""; 0]);
    }
}
