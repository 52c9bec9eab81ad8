//! The contexts of a client's key exchanges by GSS-API. The event loop passes tokens between them and the
//! connection, in the first exchange and in rekeys, so that no other code meets them.

/// The client's side of the contexts of a connection's key exchanges. Each call may wait for a process or a KDC, so
/// it must limit its time. An error is the reason, for people.
pub trait GssContexts: Send {
    /// Takes the server's token, or begins the context of an exchange if it is empty; returns the next token, and
    /// true if the context is established.
    ///
    /// # Errors
    /// The reason why the context fails.
    fn token(&mut self, token: Vec<u8>) -> Result<(Vec<u8>, bool), String>;

    /// Takes the server's last token, if there is one, and verifies the MIC of the exchange hash in the established
    /// context.
    ///
    /// # Errors
    /// The reason why the server has not proved who it is.
    fn verify(&mut self, token: Option<Vec<u8>>, hash: &[u8], mic: Vec<u8>) -> Result<(), String>;

    /// The MIC of `data` in the context of the first exchange, for `gssapi-keyex`.
    ///
    /// # Errors
    /// The reason, for example that the context has been dropped.
    fn mic(&mut self, data: Vec<u8>) -> Result<Vec<u8>, String>;

    /// Drops the context of the first exchange: the user is logged in.
    fn logged_in(&mut self);

    /// Begins the context of a rekey that delegates credentials which were renewed since the last delegation; false
    /// if there are none. To be called after the login, while no exchange runs; if true, a rekey must follow at once,
    /// because the context's first token ages.
    fn renews(&mut self) -> bool {
        false
    }
}
