use super::*;
use crate::provider::fakes::Fakes;
use crate::provider::sample::sample;
use crate::provider::{Flush, MAX_GROWTH_BYTES, Verifier, self_test};

/// Libraries of this machine that a user might name. The first must be there.
const INSTALLED: &[&str] = &[
    "/usr/lib/x86_64-linux-gnu/libz.so.1",
    "/usr/lib/aarch64-linux-gnu/libz.so.1",
    "/lib/x86_64-linux-gnu/libz.so.1",
];

fn load(path: &Path) -> Arc<Library> {
    Arc::new(Library::load(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())))
}

#[test]
fn runs_of_an_installed_zlib_inflate_to_what_went_in() {
    let data = sample(200_000);
    let mut seen = 0;
    let installed = INSTALLED.iter().map(Path::new);
    for path in installed.filter(|path| path.exists()) {
        let library = load(path);
        let mut encoder = library.encoder();
        self_test(&mut encoder, 6).unwrap();
        let mut verifier = Verifier::new();
        let mut lengths = Vec::new();
        for level in 1..=9 {
            let ends: Vec<usize> = (1..=5).map(|piece| 32_768 + 30_000 * piece).collect();
            let run = Run {
                window: &data[..ends[4]],
                history_bytes: 32_768,
                ends: &ends,
                level,
                flush: Flush::Sync,
            };
            let mut out = RunOutput::default();
            encoder.encode_run(&run, &mut out).unwrap();
            verifier.verify(&run, &out.bytes, &out.ends).unwrap();
            lengths.push(out.bytes.len());
            let mut start = 0;
            for (payload, end) in run.payloads().zip(&out.ends) {
                assert!(end - start <= payload.len() + MAX_GROWTH_BYTES);
                start = *end;
            }
        }
        assert!(lengths[8] < 110_000, "{}: {lengths:?}", path.display());
        seen += 1;
    }
    assert!(seen > 0, "no zlib on this machine: install zlib1g");
}

#[test]
fn what_a_library_lengthens_is_stored() {
    let mut payload = Vec::new();
    let mut state = 99_u32;
    while payload.len() < 32_768 {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        payload.push(state.to_le_bytes()[2]);
    }
    let path = INSTALLED.iter().map(Path::new).find(|path| path.exists());
    let mut encoder = load(path.unwrap()).encoder();
    let run = Run {
        window: &payload,
        history_bytes: 0,
        ends: &[payload.len()],
        level: 6,
        flush: Flush::Sync,
    };
    let mut out = RunOutput::default();
    encoder.encode_run(&run, &mut out).unwrap();
    assert!(out.bytes.len() <= payload.len() + MAX_GROWTH_BYTES);
    Verifier::new().verify(&run, &out.bytes, &out.ends).unwrap();
}

#[test]
fn a_library_without_the_functions_that_not_all_have_is_used_all_the_same() {
    let fakes = Fakes::new("bare");
    let bare = load(&fakes.zlib("bare", &["-DBARE"]));
    assert_eq!(bare.missing().len(), 4);
    assert_eq!(bare.version(), None);
    self_test(&mut bare.encoder(), 6).unwrap();
    let whole = load(&fakes.zlib("whole", &[]));
    assert_eq!(whole.missing(), Vec::<&str>::new());
    assert_eq!(whole.version(), Some("1.2.99-fake"));
    assert!(whole.path().ends_with("libwhole.so"));
    self_test(&mut whole.encoder(), 6).unwrap();
}

#[test]
fn a_fault_that_leaves_the_process_alive_is_seen() {
    let fakes = Fakes::new("faults");
    for (at, how, says) in [
        ("INIT", "FAIL", "deflateInit2_ failed with -2"),
        ("RESET", "FAIL", "deflateReset failed with -2"),
        ("DICTIONARY", "FAIL", "deflateSetDictionary failed with -2"),
        ("DEFLATE", "FAIL", "deflate failed with -2"),
        ("DEFLATE", "GROW", "longer than deflate allows"),
        ("DEFLATE", "LESS", "two different lengths"),
        ("DEFLATE", "MORE", "space has grown"),
        ("DEFLATE", "REST", "not taken all input"),
        ("DEFLATE", "WRONG", "its output inflates to different bytes"),
        ("DEFLATE", "FINAL", "its output ends the stream"),
        ("DEFLATE", "EMPTY", "does not end with a flush"),
        ("DEFLATE", "OPEN", "does not end between blocks"),
    ] {
        let path = fakes.faulty_zlib(at, how, 0);
        let error = self_test(&mut load(&path).encoder(), 6).unwrap_err();
        assert!(error.0.contains(says), "{at} {how}: {error}");
        assert!(error.0.starts_with("self-test, "), "{error}");
    }
}

#[test]
fn what_is_no_zlib_is_refused_with_the_reason() {
    let relative = Library::load(Path::new("libz.so.1")).unwrap_err();
    assert_eq!(relative, LibraryError::NotAbsolute);
    let absent = Library::load(Path::new("/nonexistent/libz.so")).unwrap_err();
    assert!(
        absent.to_string().contains("/nonexistent/libz.so"),
        "{absent}"
    );
    let other = [
        "/lib/x86_64-linux-gnu/libm.so.6",
        "/lib/aarch64-linux-gnu/libm.so.6",
    ];
    let other = other.iter().map(Path::new).find(|path| path.exists());
    assert_eq!(
        Library::load(other.unwrap()).unwrap_err().to_string(),
        "not a zlib: it has no deflate"
    );
    // As QATzip is: without zlib's functions, and depending on a zlib.
    let fakes = Fakes::new("dependent");
    let zlib = fakes.zlib("complete", &[]);
    let dependent = fakes.dependent("dependent", &zlib);
    assert_eq!(
        Library::load(&dependent).unwrap_err().to_string(),
        "not a zlib: it has no deflate"
    );
}
