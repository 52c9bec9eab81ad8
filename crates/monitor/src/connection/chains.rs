//! AuthenticationMethods: the lists of methods that must succeed in order, and the only source of
//! an [`Authenticated`]. No I/O.
//!
//! Invariants: an `Authenticated` is made only by a step that completes a chain (or by a single
//! success if no chain is configured); only the method at a chain's front can take a step; one key
//! serves one `publickey` step.

/// An authentication method that a chain can name (RFC 4252).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChainMethod {
    None,
    Publickey,
    Password,
    KeyboardInteractive,
    Hostbased,
    GssapiWithMic,
    GssapiKeyex,
}

impl ChainMethod {
    /// All methods, in the order of their declaration.
    pub(crate) const ALL: [Self; 7] = [
        Self::None,
        Self::Publickey,
        Self::Password,
        Self::KeyboardInteractive,
        Self::Hostbased,
        Self::GssapiWithMic,
        Self::GssapiKeyex,
    ];

    /// The name on the wire.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::None => wire::names::METHOD_NONE,
            Self::Publickey => wire::names::METHOD_PUBLICKEY,
            Self::Password => wire::names::METHOD_PASSWORD,
            Self::KeyboardInteractive => wire::names::METHOD_KEYBOARD_INTERACTIVE,
            Self::Hostbased => wire::names::METHOD_HOSTBASED,
            Self::GssapiWithMic => wire::names::METHOD_GSSAPI_WITH_MIC,
            Self::GssapiKeyex => wire::names::METHOD_GSSAPI_KEYEX,
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|method| method.name() == name)
    }
}

/// The methods that the configuration enables for this user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Enabled {
    pub(crate) publickey: bool,
    pub(crate) password: bool,
    pub(crate) kbdint: bool,
    pub(crate) hostbased: bool,
    pub(crate) gssapi: bool,
    /// GSSAPIAuthentication, if the first key exchange was by GSS-API.
    pub(crate) gssapi_keyex: bool,
    /// True if `none` may succeed: password authentication with PermitEmptyPasswords.
    pub(crate) none: bool,
}

impl Enabled {
    pub(crate) fn has(self, method: ChainMethod) -> bool {
        match method {
            ChainMethod::None => self.none,
            ChainMethod::Publickey => self.publickey,
            ChainMethod::Password => self.password,
            ChainMethod::KeyboardInteractive => self.kbdint,
            ChainMethod::Hostbased => self.hostbased,
            ChainMethod::GssapiWithMic => self.gssapi,
            ChainMethod::GssapiKeyex => self.gssapi_keyex,
        }
    }

    /// The names of the enabled methods except `none`, in OpenSSH's order.
    fn names(self) -> Vec<&'static str> {
        [
            ChainMethod::Publickey,
            ChainMethod::GssapiKeyex,
            ChainMethod::GssapiWithMic,
            ChainMethod::Password,
            ChainMethod::KeyboardInteractive,
            ChainMethod::Hostbased,
        ]
        .into_iter()
        .filter(|method| self.has(*method))
        .map(ChainMethod::name)
        .collect()
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct MethodStep {
    method: ChainMethod,
    submethod: Option<String>,
}

impl MethodStep {
    fn parse(text: &str) -> Option<Self> {
        let (name, submethod) = match text.split_once(':') {
            Some((name, submethod)) => (name, Some(submethod.to_owned())),
            None => (text, None),
        };
        Some(Self {
            method: ChainMethod::from_name(name)?,
            submethod,
        })
    }

    fn is_met_by(&self, method: ChainMethod, submethod: Option<&str>) -> bool {
        self.method == method
            && self
                .submethod
                .as_deref()
                .is_none_or(|wanted| submethod == Some(wanted))
    }
}

/// Proof that one user has completed a chain. It contains the user's name, so that permissions
/// found for another name cannot be combined with it.
#[derive(Debug)]
pub(crate) struct Authenticated {
    user: String,
    methods: Vec<&'static str>,
}

impl Authenticated {
    /// The name of the user who has authenticated.
    pub(crate) fn user(&self) -> &str {
        &self.user
    }

    /// The methods that succeeded, in order.
    pub(crate) fn methods(&self) -> &[&'static str] {
        &self.methods
    }
}

/// Result of a method's success.
#[derive(Debug)]
pub(crate) enum ChainProgress {
    /// The chain is complete.
    Complete(Authenticated),
    /// The chain needs further methods.
    Partial,
    /// No chain has the method at its front, or the key was used before.
    NotAsked,
}

/// The chains that are still open for one user of one connection.
#[derive(Debug)]
pub(crate) struct Chains {
    user: String,
    enabled: Enabled,
    /// Remaining steps of each chain; `None` if any single method is enough.
    open: Option<Vec<Vec<MethodStep>>>,
    used_keys: Vec<Vec<u8>>,
    succeeded: Vec<&'static str>,
}

impl Chains {
    /// The chains of `user`. `configured` contains the lists of AuthenticationMethods; empty means
    /// that any single method is enough. A list with a method that is not enabled is dropped; if no
    /// list is left, nothing can succeed.
    pub(crate) fn new(user: &str, configured: &[Vec<String>], enabled: Enabled) -> Self {
        let any = configured.is_empty()
            || configured
                .iter()
                .any(|list| matches!(list.as_slice(), [only] if only == "any"));
        let open = (!any).then(|| {
            configured
                .iter()
                .filter_map(|list| {
                    let steps: Option<Vec<MethodStep>> =
                        list.iter().map(|step| MethodStep::parse(step)).collect();
                    // As in OpenSSH, `none` is valid in no chain, even if PermitEmptyPasswords lets
                    // it succeed by itself.
                    let can_succeed = |step: &MethodStep| {
                        step.method != ChainMethod::None && enabled.has(step.method)
                    };
                    steps.filter(|steps| !steps.is_empty() && steps.iter().all(can_succeed))
                })
                .collect::<Vec<_>>()
        });
        Self {
            user: user.to_owned(),
            enabled,
            open,
            used_keys: Vec::new(),
            succeeded: Vec::new(),
        }
    }

    /// True when no chain can be completed, however often a method succeeds.
    pub(crate) fn hopeless(&self) -> bool {
        self.open.as_ref().is_some_and(Vec::is_empty)
    }

    /// True when `method` may be tried now.
    pub(crate) fn allows(&self, method: ChainMethod) -> bool {
        self.enabled.has(method)
            && match &self.open {
                None => true,
                Some(lists) => lists
                    .iter()
                    .any(|list| list.first().is_some_and(|step| step.method == method)),
            }
    }

    /// True when `key` has served a step already.
    pub(crate) fn is_used(&self, key: &[u8]) -> bool {
        self.used_keys.iter().any(|used| used == key)
    }

    /// The methods that can continue (RFC 4252 §5.1).
    pub(crate) fn methods(&self) -> Vec<String> {
        self.enabled
            .names()
            .into_iter()
            .filter(|name| ChainMethod::from_name(name).is_some_and(|method| self.allows(method)))
            .map(str::to_owned)
            .collect()
    }

    /// Submethods of keyboard-interactive that may be tried now; `None` for any.
    pub(crate) fn kbdint_submethods(&self) -> Option<Vec<&str>> {
        let lists = self.open.as_ref()?;
        let mut names = Vec::new();
        for step in lists.iter().filter_map(|list| list.first()) {
            if step.method == ChainMethod::KeyboardInteractive {
                names.push(step.submethod.as_deref()?);
            }
        }
        Some(names)
    }

    /// Records that `method` succeeded, with the key for `publickey` and
    /// `hostbased`.
    pub(crate) fn succeed(
        &mut self,
        method: ChainMethod,
        submethod: Option<&str>,
        key: Option<&[u8]>,
    ) -> ChainProgress {
        if !self.enabled.has(method) || key.is_some_and(|key| self.is_used(key)) {
            return ChainProgress::NotAsked;
        }
        let complete = match &mut self.open {
            None => true,
            Some(lists) => {
                let mut taken = false;
                for list in lists.iter_mut() {
                    if list
                        .first()
                        .is_some_and(|step| step.is_met_by(method, submethod))
                    {
                        list.remove(0);
                        taken = true;
                    }
                }
                if !taken {
                    return ChainProgress::NotAsked;
                }
                lists.iter().any(Vec::is_empty)
            }
        };
        if let Some(key) = key {
            self.used_keys.push(key.to_vec());
        }
        self.succeeded.push(method.name());
        if !complete {
            return ChainProgress::Partial;
        }
        ChainProgress::Complete(Authenticated {
            user: self.user.clone(),
            methods: self.succeeded.clone(),
        })
    }
}

#[cfg(test)]
#[path = "chains_tests.rs"]
mod tests;
