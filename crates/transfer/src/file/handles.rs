//! The handles under which one file is open at its server, one for each connection of the copy.

/// One connection's handle of the file.
#[derive(Debug)]
enum HandleState {
    Unopened,
    /// OPEN was sent.
    Asked,
    /// OPEN was refused, or is not to be sent any more.
    Refused,
    Open {
        handle: Vec<u8>,
        /// Data moves over this connection.
        begun: bool,
    },
    /// CLOSE was sent.
    Closed,
}

/// The handles of one file by connection; the first connection opens the file and ends the copy.
#[derive(Debug)]
pub(crate) struct Handles(Vec<(usize, HandleState)>);

impl Handles {
    /// For a file that is copied over these connections.
    pub(crate) fn new(links: Vec<usize>) -> Self {
        Self(
            links
                .into_iter()
                .map(|link| (link, HandleState::Unopened))
                .collect(),
        )
    }

    /// Number of connections.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The connections.
    pub(crate) fn links(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().map(|(link, _)| *link)
    }

    /// The connection that opens the file and ends the copy.
    pub(crate) fn first_link(&self) -> Option<usize> {
        self.links().next()
    }

    /// True for the connection that opens the file and ends the copy.
    pub(crate) fn is_first(&self, link: usize) -> bool {
        self.first_link() == Some(link)
    }

    /// Copies over the first connection only.
    pub(crate) fn keep_first(&mut self) {
        self.0.truncate(1);
    }

    fn state(&self, link: usize) -> Option<&HandleState> {
        let mut states = self.0.iter();
        states
            .find(|(each, _)| *each == link)
            .map(|(_, state)| state)
    }

    fn set(&mut self, link: usize, state: HandleState) {
        if let Some((_, there)) = self.0.iter_mut().find(|(each, _)| *each == link) {
            *there = state;
        }
    }

    /// True if the connection belongs to the copy and has not asked for a handle.
    pub(crate) fn is_unopened(&self, link: usize) -> bool {
        matches!(self.state(link), Some(HandleState::Unopened))
    }

    /// True if the file is open on the connection.
    pub(crate) fn is_open(&self, link: usize) -> bool {
        matches!(self.state(link), Some(HandleState::Open { .. }))
    }

    /// A copy of the connection's handle, while it is open.
    pub(crate) fn open(&self, link: usize) -> Option<Vec<u8>> {
        match self.state(link) {
            Some(HandleState::Open { handle, .. }) => Some(handle.clone()),
            _ => None,
        }
    }

    /// A copy of the first connection's handle, while it is open.
    pub(crate) fn first(&self) -> Option<Vec<u8>> {
        self.open(self.first_link()?)
    }

    /// True if any of the handles is open.
    pub(crate) fn is_any_open(&self) -> bool {
        let mut states = self.0.iter().map(|(_, state)| state);
        states.any(|state| matches!(state, HandleState::Open { .. }))
    }

    /// True if every connection has asked for a handle and none is open.
    pub(crate) fn are_closed(&self) -> bool {
        let mut states = self.0.iter().map(|(_, state)| state);
        !states.any(|state| matches!(state, HandleState::Unopened | HandleState::Open { .. }))
    }

    /// True if the first connection had the file open.
    pub(crate) fn was_opened(&self) -> bool {
        let first = self.0.first().map(|(_, state)| state);
        matches!(first, Some(HandleState::Open { .. } | HandleState::Closed))
    }

    /// OPEN was sent.
    pub(crate) fn asked(&mut self, link: usize) {
        self.set(link, HandleState::Asked);
    }

    /// OPEN was answered with this handle.
    pub(crate) fn opened(&mut self, link: usize, handle: Vec<u8>) {
        let begun = false;
        self.set(link, HandleState::Open { handle, begun });
    }

    /// OPEN was refused, or is not to be sent any more.
    pub(crate) fn refused(&mut self, link: usize) {
        self.set(link, HandleState::Refused);
    }

    /// Opens the file on no further connection.
    pub(crate) fn refuse_unopened(&mut self) {
        for (_, state) in &mut self.0 {
            if matches!(state, HandleState::Unopened) {
                *state = HandleState::Refused;
            }
        }
    }

    /// Forgets the handles, since the connections are lost.
    pub(crate) fn abandon(&mut self) {
        for (_, state) in &mut self.0 {
            *state = HandleState::Closed;
        }
    }

    /// Forgets the handles, to open the file again.
    pub(crate) fn reset(&mut self) {
        for (_, state) in &mut self.0 {
            *state = HandleState::Unopened;
        }
    }

    /// Data moves over the first connection from now on.
    pub(crate) fn first_begins(&mut self) {
        if let Some((_, HandleState::Open { begun, .. })) = self.0.first_mut() {
            *begun = true;
        }
    }

    /// Returns the connections that have opened the file and move no data yet; from now on they
    /// do.
    pub(crate) fn begin_opened(&mut self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter_mut().filter_map(|(link, state)| match state {
            HandleState::Open { begun, .. } => (!std::mem::replace(begun, true)).then_some(*link),
            _ => None,
        })
    }

    /// Returns the connection's open handle for CLOSE.
    pub(crate) fn close(&mut self, link: usize) -> Option<Vec<u8>> {
        let (_, state) = self.0.iter_mut().find(|(each, _)| *each == link)?;
        match std::mem::replace(state, HandleState::Closed) {
            HandleState::Open { handle, .. } => Some(handle),
            other => {
                *state = other;
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_is_closed_once_and_begins_once() {
        let mut handles = Handles::new(vec![3, 1]);
        assert!(handles.is_first(3) && handles.is_unopened(1) && !handles.is_unopened(2));
        handles.asked(3);
        assert!(!handles.is_unopened(3) && handles.first().is_none());
        handles.opened(3, b"h".to_vec());
        handles.first_begins();
        handles.opened(1, b"i".to_vec());
        assert_eq!(handles.begin_opened().collect::<Vec<_>>(), [1]);
        assert_eq!(handles.begin_opened().count(), 0);
        assert_eq!(handles.close(3).as_deref(), Some(&b"h"[..]));
        assert!(handles.close(3).is_none() && handles.was_opened() && handles.is_any_open());
        assert!(handles.close(1).is_some() && !handles.is_any_open());
        handles.refused(3);
        assert!(!handles.was_opened());
        handles.reset();
        assert!(handles.is_unopened(3) && handles.is_unopened(1));
    }
}
