//! Lists of algorithms, and one choice from each.

use std::fmt;

/// The algorithms of one side or of both, by list, in a fixed order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Algorithms {
    /// Key exchange methods (RFC 4253 §7.1 `kex_algorithms`), without markers.
    pub kex: Vec<String>,
    /// Host key algorithms.
    pub host_keys: Vec<String>,
    /// Ciphers.
    pub ciphers: Vec<String>,
    /// MACs.
    pub macs: Vec<String>,
    /// Compression methods.
    pub compression: Vec<String>,
}

impl Algorithms {
    /// The common algorithms, in our order.
    #[must_use]
    pub fn common(&self, other: &Self) -> Self {
        let both = |ours: &[String], theirs: &[String]| {
            ours.iter()
                .filter(|name| theirs.contains(name))
                .cloned()
                .collect()
        };
        Self {
            kex: both(&self.kex, &other.kex),
            host_keys: both(&self.host_keys, &other.host_keys),
            ciphers: both(&self.ciphers, &other.ciphers),
            macs: both(&self.macs, &other.macs),
            compression: both(&self.compression, &other.compression),
        }
    }

    /// Only the algorithms of `suite`.
    #[must_use]
    pub fn only(suite: &Suite) -> Self {
        Self {
            kex: vec![suite.kex.clone()],
            host_keys: vec![suite.host_key.clone()],
            ciphers: vec![suite.cipher.clone()],
            macs: suite.mac.iter().cloned().collect(),
            compression: vec![suite.compression.clone()],
        }
    }

    /// Removes algorithms without a fixture (keys in hardware), broken ones, and the markers among
    /// the key exchange methods.
    #[must_use]
    pub fn usable(mut self) -> Self {
        self.kex.retain(|name| {
            !["ext-info-", "kex-strict-", "kexguess2@", "gss-"]
                .iter()
                .any(|marker| name.starts_with(marker))
        });
        self.host_keys.retain(|name| {
            !name.starts_with("sk-")
                && !name.starts_with("webauthn-sk-")
                && !name.starts_with("ssh-dss")
        });
        self.ciphers
            .retain(|name| name != "rijndael-cbc@lysator.liu.se");
        self.compression.retain(|name| name != "zlib");
        self
    }
}

/// True if a cipher is authenticated, so that no MAC is negotiated with it.
#[must_use]
pub fn is_aead(cipher: &str) -> bool {
    cipher.contains("-gcm@") || cipher.starts_with("chacha20-poly1305")
}

/// One name of each list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suite {
    /// Key exchange method.
    pub kex: String,
    /// Host key algorithm.
    pub host_key: String,
    /// Cipher, the same in both directions.
    pub cipher: String,
    /// MAC; `None` with an authenticated cipher.
    pub mac: Option<String>,
    /// Compression method.
    pub compression: String,
}

impl fmt::Display for Suite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mac = self.mac.as_deref().unwrap_or("-");
        let Self {
            kex,
            host_key,
            cipher,
            compression,
            ..
        } = self;
        write!(f, "{kex} {host_key} {cipher} {mac} {compression}")
    }
}

/// Suites by index: turns rows of [`crate::covering`] into suites.
#[derive(Clone, Debug)]
pub struct Space {
    algorithms: Algorithms,
    /// The MACs, `None` first.
    macs: Vec<Option<String>>,
}

impl Space {
    /// All suites of `algorithms`.
    #[must_use]
    pub fn new(algorithms: Algorithms) -> Self {
        let named = algorithms.macs.iter().cloned().map(Some);
        let macs = core::iter::once(None).chain(named).collect();
        Self { algorithms, macs }
    }

    /// Number of values of each factor.
    #[must_use]
    pub fn sizes(&self) -> Vec<usize> {
        let a = &self.algorithms;
        vec![
            a.kex.len(),
            a.host_keys.len(),
            a.ciphers.len(),
            self.macs.len(),
            a.compression.len(),
        ]
    }

    /// True if two values are compatible: a MAC exactly if the cipher needs one.
    #[must_use]
    pub fn allows(&self, one: (usize, usize), other: (usize, usize)) -> bool {
        let (low, high) = if one.0 <= other.0 {
            (one, other)
        } else {
            (other, one)
        };
        match (low, high) {
            ((2, cipher), (3, mac)) => {
                is_aead(&self.algorithms.ciphers[cipher]) == self.macs[mac].is_none()
            }
            _ => true,
        }
    }

    /// The suite of a row.
    #[must_use]
    pub fn suite(&self, row: &[usize]) -> Suite {
        let a = &self.algorithms;
        Suite {
            kex: a.kex[row[0]].clone(),
            host_key: a.host_keys[row[1]].clone(),
            cipher: a.ciphers[row[2]].clone(),
            mac: self.macs[row[3]].clone(),
            compression: a.compression[row[4]].clone(),
        }
    }

    /// Each cipher with each MAC that it needs, a fast key exchange, because there are many, and
    /// the first of everything else.
    #[must_use]
    pub fn ciphers_by_macs(&self) -> Vec<Suite> {
        let cheap = |name: &String| name.starts_with("curve25519");
        let kex = self.algorithms.kex.iter().position(cheap).unwrap_or(0);
        let mut suites = Vec::new();
        for cipher in 0..self.algorithms.ciphers.len() {
            for mac in 0..self.macs.len() {
                if self.allows((2, cipher), (3, mac)) {
                    suites.push(self.suite(&[kex, 0, cipher, mac, 0]));
                }
            }
        }
        suites
    }
}
