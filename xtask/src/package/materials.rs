//! The crates that the packaged binary is made of: their licences for Debian's copyright file, and
//! a bill of materials (CycloneDX 1.5).

use std::collections::BTreeMap;
use std::fs;
use std::io::Result;
use std::path::PathBuf;
use std::process::Command;

use super::{Package, text_of};

/// A crate of another project.
struct Material {
    name: String,
    version: String,
    licence: String,
    /// SHA-256 of its archive, in Cargo.lock.
    checksum: Option<String>,
}

/// The crates that are linked into the binary.
fn materials(package: &Package) -> Result<Vec<Material>> {
    let mut tree = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    tree.args([
        "tree",
        "--locked",
        "-p",
        "cli",
        "--no-default-features",
        "--edges",
        "normal",
        "--prefix",
        "none",
    ]);
    tree.args(["--format", "{p}\t{l}"])
        .current_dir(&package.root);
    let lock = fs::read_to_string(package.root.join("Cargo.lock"))?;
    let mut found = BTreeMap::new();
    for line in text_of(&mut tree)?.lines() {
        // "name v1.2.3 (*)", or "(path)" for a crate of the workspace.
        let Some((what, licence)) = line.split_once('\t') else {
            continue;
        };
        let mut words = what.split(' ');
        let (Some(name), Some(version)) = (words.next(), words.next()) else {
            continue;
        };
        if words.next().is_some_and(|word| word.starts_with("(/")) {
            continue;
        }
        let version = version.trim_start_matches('v');
        let licence = licence.trim_end_matches(" (*)");
        found.insert((name.to_owned(), version.to_owned()), licence.to_owned());
    }
    let material = |((name, version), licence): ((String, String), String)| Material {
        checksum: checksum(&lock, &name, &version),
        name,
        version,
        licence,
    };
    Ok(found.into_iter().map(material).collect())
}

fn checksum(lock: &str, name: &str, version: &str) -> Option<String> {
    let head = format!("name = \"{name}\"\nversion = \"{version}\"\n");
    let (_, rest) = lock.split_once(&head)?;
    let mut entry = rest.lines().take_while(|line| !line.is_empty());
    let line = entry.find_map(|line| line.strip_prefix("checksum = \""))?;
    Some(line.trim_end_matches('"').to_owned())
}

/// Debian's copyright file: ours, and the licences of all crates.
pub(super) fn copyright(package: &Package) -> Result<String> {
    let mut text = "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\
                    Upstream-Name: Fulmar\n\
                    Comment: The program contains the following crates, under these licences:\n"
        .to_owned();
    for material in materials(package)? {
        text.push_str(&format!(
            " {} {}: {}\n",
            material.name, material.version, material.licence
        ));
    }
    text.push_str("\nFiles: *\nCopyright: The Fulmar developers\nLicense: MIT or Apache-2.0\n");
    let mit = fs::read_to_string(package.root.join("LICENSE-MIT"))?;
    text.push_str("\nLicense: MIT\n");
    for line in mit.lines() {
        text.push_str(&format!(" {}\n", if line.is_empty() { "." } else { line }));
    }
    text.push_str(
        "\nLicense: Apache-2.0\n The text is in /usr/share/common-licenses/Apache-2.0.\n",
    );
    Ok(text)
}

/// Writes the bill of materials.
pub(super) fn write(package: &Package) -> Result<PathBuf> {
    let version = &package.version;
    let components: Vec<String> = materials(package)?.iter().map(component).collect();
    let text = format!(
        "{{\n  \"bomFormat\": \"CycloneDX\",\n  \"specVersion\": \"1.5\",\n  \"version\": 1,\n  \"metadata\": {{\n    \
         \"component\": {{\"type\": \"application\", \"name\": \"fulmar\", \"version\": \"{version}\", \
         \"licenses\": [{{\"expression\": \"MIT OR Apache-2.0\"}}]}}\n  }},\n  \"components\": [\n{}\n  ]\n}}\n",
        components.join(",\n")
    );
    let path = package.out.join(format!("fulmar-{version}.cdx.json"));
    fs::write(&path, text)?;
    Ok(path)
}

/// Names, versions and licences have no character that JSON escapes; Cargo refuses such.
fn component(material: &Material) -> String {
    let Material {
        name,
        version,
        licence,
        checksum,
    } = material;
    // Cargo's old form of "or".
    let licence = licence.replace('/', " OR ");
    let hashes = checksum
        .as_ref()
        .map(|sum| format!(", \"hashes\": [{{\"alg\": \"SHA-256\", \"content\": \"{sum}\"}}]"));
    format!(
        "    {{\"type\": \"library\", \"name\": \"{name}\", \"version\": \"{version}\", \"purl\": \"pkg:cargo/{name}@{version}\", \
         \"licenses\": [{{\"expression\": \"{licence}\"}}]{}}}",
        hashes.unwrap_or_default()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_that_of_the_version() {
        let lock = "[[package]]\nname = \"a\"\nversion = \"1.0.0\"\nsource = \"r\"\nchecksum = \"one\"\n\n\
                    [[package]]\nname = \"a\"\nversion = \"2.0.0\"\n\n[[package]]\nname = \"b\"\nversion = \"2.0.0\"\nchecksum = \"two\"\n";
        assert_eq!(checksum(lock, "a", "1.0.0").as_deref(), Some("one"));
        assert_eq!(checksum(lock, "a", "2.0.0"), None);
        assert_eq!(checksum(lock, "c", "1.0.0"), None);
    }
}
