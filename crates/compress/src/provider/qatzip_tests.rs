use super::*;
use crate::provider::fakes::Fakes;
use crate::provider::sample::sample;
use crate::provider::{Loaded, MAX_GROWTH_BYTES, self_test};

/// The zlib of this machine, with which a fake compresses as a device does.
const ZLIBS: &[&str] = &[
    "/usr/lib/x86_64-linux-gnu/libz.so.1",
    "/usr/lib/aarch64-linux-gnu/libz.so.1",
];

fn load(path: &Path) -> Arc<QatZip> {
    match Loaded::load(path) {
        Ok(Loaded::QatZip(library)) => library,
        other => panic!("{}: {other:?}", path.display()),
    }
}

fn compressing(fakes: &Fakes) -> PathBuf {
    let zlib = ZLIBS.iter().find(|path| Path::new(path).exists());
    let zlib = zlib.expect("install zlib1g");
    fakes.qatzip("deflate", &["-DDEFLATE", "-Wl,--no-as-needed", zlib])
}

#[test]
fn its_runs_need_no_history_and_go_on_behind_each_other() {
    let fakes = Fakes::new("qatzip-runs");
    let data = sample(200_000);
    for path in [
        compressing(&fakes),
        fakes.qatzip("stored", &[]),
        fakes.qatzip("without-flush", &["-DNO_FLUSH"]),
        fakes.qatzip("older", &["-DSHORT", "-DBARE"]),
    ] {
        let library = load(&path);
        let mut encoder = library.encoder();
        self_test(&mut encoder, 6).unwrap();
        let mut verifier = Verifier::new();
        for level in 1..=9 {
            let sizes = [1, 127, 128, 30_000, 32_777, 70_000];
            let mut end = 32_768;
            let ends = sizes.map(|size| {
                end += size;
                end
            });
            let run = Run {
                window: &data[..end],
                history_bytes: 32_768,
                ends: &ends,
                level,
                flush: Flush::Sync,
            };
            let (mut out, mut made) = (Vec::new(), Vec::new());
            encoder.encode_run(&run, &mut out, &mut made).unwrap();
            verifier.verify(&run, &out, &made).unwrap();
            // Behind another history it is the same: it refers to none.
            let other = Run {
                history_bytes: 0,
                window: &data[32_768..end],
                ends: &ends.map(|end| end - 32_768),
                ..run
            };
            verifier.verify(&other, &out, &made).unwrap();
            let mut start = 0;
            for (payload, end) in run.payloads().zip(&made) {
                assert!(end - start <= payload.len() + MAX_GROWTH_BYTES);
                start = *end;
            }
            if path.ends_with("libqatzip-deflate.so") {
                assert!(out.len() < 80_000, "{level}: {}", out.len());
            }
        }
    }
}

#[test]
fn what_it_is_and_lacks_is_told() {
    let fakes = Fakes::new("qatzip-told");
    let plain = fakes.qatzip("plain", &["-DBARE"]);
    let versioned = fakes.folder().join("libqatzip.so.3.0.9");
    std::fs::rename(&plain, &versioned).unwrap();
    let named = fakes.folder().join("libqatzip.so.3");
    std::os::unix::fs::symlink(&versioned, &named).unwrap();
    let loaded = Loaded::load(&named).unwrap();
    assert_eq!(loaded.version(), "QATzip 3.0.9");
    assert_eq!(loaded.path(), named);
    assert_eq!(loaded.missing(), ["qzCompressExt"]);
    // That one depends on a zlib, which is found through it.
    let with_zlib = Loaded::load(&compressing(&fakes)).unwrap();
    assert_eq!(with_zlib.version(), "QATzip");
    assert_eq!(with_zlib.missing(), Vec::<&str>::new());
    let zlib = ZLIBS.iter().map(Path::new).find(|path| path.exists());
    let zlib = Loaded::load(zlib.unwrap()).unwrap();
    assert!(zlib.version().starts_with("zlibVersion 1."), "{zlib:?}");
}

#[test]
fn a_fault_that_leaves_the_process_alive_is_seen() {
    let fakes = Fakes::new("qatzip-faults");
    for (at, how, says) in [
        ("INIT", "FAIL", "qzInit failed with -2"),
        ("DEFAULTS", "FAIL", "qzGetDefaultsDeflate failed with -2"),
        ("SETUP", "FAIL", "qzSetupSessionDeflate failed with -2"),
        ("SETUP", "SOFT", "it uses software: no QAT device"),
        ("COMPRESS", "FAIL", "qzCompress failed with -2"),
        ("COMPRESS", "GROW", "longer than deflate allows"),
        ("COMPRESS", "LESS", "does not end between blocks"),
        ("COMPRESS", "MORE", "space has grown"),
        ("COMPRESS", "REST", "not taken all input"),
        ("COMPRESS", "WRONG", "inflates to other bytes"),
        ("COMPRESS", "FINAL", "ends the stream"),
        ("COMPRESS", "EMPTY", "inflates to other bytes"),
        ("COMPRESS", "OPEN", "does not end between blocks"),
        ("COMPRESS", "SOFT", "has used software"),
        ("COMPRESS", "GONE", "no instance of the device is free"),
    ] {
        let library = load(&fakes.faulty_qatzip(at, how, 0));
        let error = self_test(&mut library.encoder(), 6).unwrap_err();
        assert!(error.0.contains(says), "{at} {how}: {error}");
        assert!(error.0.starts_with("self-test, "), "{error}");
    }
}

#[test]
fn what_a_device_lacks_is_told_in_words() {
    let fakes = Fakes::new("qatzip-words");
    for (code, says) in [
        (-101, "no QAT device can be used"),
        (-102, "usdm_drv"),
        (-103, "no instance of the device is free"),
        (-104, "LimitMEMLOCK"),
        (-116, "the device has no deflate"),
        (11, "it uses software"),
        (77, "qzInit failed with 77"),
    ] {
        let number = format!("-DCODE={code}");
        let path = fakes.qatzip(&format!("init{code}"), &["-DAT=INIT", &number]);
        let error = self_test(&mut load(&path).encoder(), 6).unwrap_err();
        assert!(error.0.contains(says), "{code}: {error}");
        assert!(error.0.contains(&code.to_string()), "{code}: {error}");
    }
}

#[test]
fn parameters_that_are_not_known_are_not_set() {
    let fakes = Fakes::new("qatzip-parameters");
    let foreign = load(&fakes.qatzip("foreign", &["-DFOREIGN"]));
    let error = self_test(&mut foreign.encoder(), 6).unwrap_err();
    assert!(error.0.contains("not known here"), "{error}");
    // A library that writes nothing has no layout, and none that writes everything.
    assert_eq!(Layout::find(&Parameters::untouched()), None);
    assert_eq!(Layout::find(&Parameters([0; PARAMETER_BYTES])), None);
}

#[test]
fn threads_wait_for_a_device_that_has_fewer_instances() {
    let fakes = Fakes::new("qatzip-instances");
    let library = load(&fakes.qatzip("one", &["-DINSTANCES=1"]));
    let data = sample(40_000);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut encoder = library.encoder();
                for _ in 0..10 {
                    let run = Run {
                        window: &data,
                        history_bytes: 0,
                        ends: &[20_000, 40_000],
                        level: 6,
                        flush: Flush::Sync,
                    };
                    let (mut out, mut made) = (Vec::new(), Vec::new());
                    encoder.encode_run(&run, &mut out, &mut made).unwrap();
                    Verifier::new().verify(&run, &out, &made).unwrap();
                }
            });
        }
    });
    // None at all is an error, after one more try.
    let none = load(&fakes.qatzip("none", &["-DINSTANCES=0"]));
    let error = self_test(&mut none.encoder(), 6).unwrap_err();
    assert!(error.0.contains("no instance of the device"), "{error}");
}
