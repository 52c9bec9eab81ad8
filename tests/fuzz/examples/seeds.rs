//! Writes the seeds of every target to tests/fuzz/corpus.

fn main() -> std::io::Result<()> {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for (target, _) in fuzz_bodies::TARGETS {
        let folder = root.join(target);
        std::fs::create_dir_all(&folder)?;
        for (name, bytes) in fuzz_bodies::seeds::of(target) {
            std::fs::write(folder.join(name), bytes)?;
        }
    }
    Ok(())
}
