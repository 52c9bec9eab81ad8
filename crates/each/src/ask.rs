//! Questions of many logins to one user: one at a time, and what is the same for all of them once.
//!
//! A password is asked for once for each user and given to every host that asks for one; a passphrase
//! once for each key file. Host keys, codes and everything else are asked for one host at a time.
//!
//! The processes of jumps have their questions asked here too. Hosts with the same jump ask the same:
//! one answer to the same text is for all, where it is a password, a passphrase or a host key; a password
//! only for the same user, host and port.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use client::interaction::{Interaction, Question};
use client::prompt::Prompter;
use client::question_relay::{QuestionRelay, RelayedQuestion};
use sys::signals::Blocked;
use zeroize::Zeroizing;

use crate::crew::ENDING;
use crate::output::{HostOutput, RunOutput, locked};
use crate::session::Control;

type SharedAnswer = Option<Zeroizing<Vec<u8>>>;

/// The answers that hosts share. The lock of `answers` is held while a question is on the screen, so that
/// one question is asked at a time.
#[derive(Debug)]
pub(crate) struct Questions {
    answers: Mutex<HashMap<Topic, SharedAnswer>>,
    output: Arc<RunOutput>,
    /// True once the run ends; further questions are refused.
    is_over: AtomicBool,
    prompter_can_ask: bool,
}

impl Questions {
    pub(crate) fn new(output: Arc<RunOutput>) -> Self {
        Self {
            answers: Mutex::default(),
            output,
            is_over: AtomicBool::new(false),
            prompter_can_ask: Prompter::new(false).can_ask(),
        }
    }

    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// Asks the user. Returns without an answer when the host that needs it is given up, or the run ends.
    /// The caller holds the lock of `answers`.
    fn ask(
        &self,
        text: &str,
        question: Question,
        is_given_up: impl Fn() -> bool + 'static,
    ) -> SharedAnswer {
        if self.is_over.load(Ordering::Relaxed) || sys::signals::noted() {
            return None;
        }
        let _screen = self.output.hold_screen();
        // A message of the prompter would wait for the screen.
        client::log::silently(|| {
            sys::signals::with_questions_until(is_given_up, || {
                Prompter::new(false).ask(text, question)
            })
        })
    }
}

/// The subject of a question whose answer all hosts share.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Topic {
    /// The password of this user.
    Password(String),
    /// The passphrase that this prompt asks for.
    Passphrase(String),
    /// What a jump asks with this text.
    Jump(String),
    /// The password of a jump: the login, `user@host:port`, and the prompt, which has no port.
    JumpPassword(String, String),
}

impl Topic {
    /// The topic of a prompt of the client.
    fn of(prompt: &str, question: Question) -> Option<Self> {
        if question != Question::Secret {
            return None;
        }
        if prompt.starts_with("Enter passphrase for key ") {
            return Some(Self::Passphrase(prompt.to_owned()));
        }
        let user = |who: &str| who.rsplit_once('@').map(|(user, _)| user.to_owned());
        if let Some(who) = prompt.strip_suffix("'s password: ") {
            // Not a change of the password, which has other prompts.
            return user(who).filter(|_| !who.contains(' ')).map(Self::Password);
        }
        // keyboard-interactive: `(user@host) Password: `.
        let (who, asked) = prompt.strip_prefix('(')?.split_once(") ")?;
        let is_password = asked
            .trim()
            .trim_end_matches(':')
            .eq_ignore_ascii_case("password");
        user(who).filter(|_| is_password).map(Self::Password)
    }

    /// The topic of a question of a jump. The whole prompt counts, for a server chooses the lines of its
    /// own: one that ends as another jump's question must not get that jump's answer.
    fn of_jump(login: &str, leading: &str, prompt: &str, question: Question) -> Option<Self> {
        match question {
            Question::Secret => Some(match Self::of(prompt, question)? {
                Self::Passphrase(text) => Self::Jump(text),
                _ => Self::JumpPassword(login.to_owned(), prompt.to_owned()),
            }),
            // The lines name the host and the fingerprint; without them it is said again.
            Question::Confirm if leading.contains('\n') || prompt.contains('\n') => {
                Some(Self::Jump(format!("{leading}{prompt}")))
            }
            Question::Confirm | Question::Line => None,
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Password(user) => format!("{user}'s password, for every host that asks for it: "),
            Self::Passphrase(text) | Self::Jump(text) => text.clone(),
            // Of jumps that differ in the port alone the user must know which one asks.
            Self::JumpPassword(login, prompt) if login.ends_with(":22") || login.is_empty() => {
                prompt.clone()
            }
            Self::JumpPassword(login, prompt) => format!("{login}: {prompt}"),
        }
    }
}

/// Asks the questions of jumps, on threads of its own for as long as the program runs.
pub(crate) fn serve_jumps(questions: &Arc<Questions>) {
    if !questions.prompter_can_ask {
        return;
    }
    // Without it each jump asks by itself.
    let Ok(relay) = QuestionRelay::listen() else {
        return;
    };
    let questions = Arc::clone(questions);
    // The main thread takes the signals.
    let _blocked = Blocked::new(&ENDING);
    let Ok(asked) = relay.receive() else {
        return;
    };
    let work = move || {
        let mut used = HashMap::new();
        for question in asked {
            questions.answer_jump(question, &mut used);
        }
    };
    let _ = std::thread::Builder::new()
        .name("answers".to_owned())
        .spawn(work);
}

impl Questions {
    /// Answers a question of a jump. `used` has the answers that each process got to each topic: who asks
    /// again got a wrong one.
    fn answer_jump(
        &self,
        question: RelayedQuestion,
        used: &mut HashMap<(u32, Topic), SharedAnswer>,
    ) {
        let mut answers = locked(&self.answers);
        let Ok(is_given_up) = question.is_given_up() else {
            return;
        };
        // Its host was given up while another question was open.
        if is_given_up() {
            return;
        }
        let (leading, prompt) = (&question.leading, &question.prompt);
        let Some(topic) = Topic::of_jump(&question.login, leading, prompt, question.question)
        else {
            let text = format!("{leading}{prompt}");
            let answer = self.ask(&text, question.question, is_given_up);
            return question.answer(answer.as_ref().map(|answer| answer.as_slice()));
        };
        let text = match &topic {
            Topic::JumpPassword(..) => format!("{leading}{}", topic.text()),
            _ => format!("{leading}{prompt}"),
        };
        let key = (question.process, topic.clone());
        if used
            .get(&key)
            .is_some_and(|before| answers.get(&topic) == Some(before))
        {
            answers.remove(&topic);
        }
        let answer = match answers.get(&topic) {
            Some(answer) => answer.clone(),
            None => {
                let answer = self.ask(&text, question.question, is_given_up);
                let has_given_up = question.is_given_up().is_ok_and(|given_up| given_up());
                if answer.is_some() || !has_given_up {
                    answers.insert(topic, answer.clone());
                }
                answer
            }
        };
        used.insert(key, answer.clone());
        question.answer(answer.as_ref().map(|answer| answer.as_slice()));
    }
}

/// A function that says whether the host is given up.
fn given_up(control: &Arc<Control>) -> impl Fn() -> bool + 'static {
    let control = Arc::clone(control);
    move || control.is_abandoned()
}

/// The questions of one host.
pub(crate) struct HostInteraction {
    questions: Arc<Questions>,
    output: Arc<Mutex<HostOutput>>,
    control: Arc<Control>,
    /// Text for the user that belongs to the next question, if there is one.
    pending: String,
    /// The shared answers that this host was given. After a wrong password the host gets no other; a wrong
    /// passphrase is asked for again.
    used: HashMap<Topic, SharedAnswer>,
}

impl HostInteraction {
    pub(crate) fn new(
        questions: Arc<Questions>,
        output: Arc<Mutex<HostOutput>>,
        control: Arc<Control>,
    ) -> Self {
        Self {
            questions,
            output,
            control,
            pending: String::new(),
            used: HashMap::new(),
        }
    }

    /// Text that no question followed is a message about the host, unless it was given up.
    pub(crate) fn flush(&mut self) {
        let text = std::mem::take(&mut self.pending);
        if !text.trim().is_empty() && !self.control.is_abandoned() {
            locked(&self.output).message(text.trim_end());
        }
    }

    /// The answer that all hosts share; it is asked for where there is none.
    fn shared(&mut self, topic: Topic) -> SharedAnswer {
        let mut answers = locked(&self.questions.answers);
        if self.control.is_abandoned() {
            return None;
        }
        if let Some(before) = self.used.get(&topic) {
            // The host refused the password: the next is not better. A passphrase is found wrong
            // here, and asked for again.
            if matches!(topic, Topic::Password(_)) {
                return None;
            }
            if answers.get(&topic) == Some(before) {
                answers.remove(&topic);
            }
        }
        let answer = match answers.get(&topic) {
            Some(answer) => answer.clone(),
            None => {
                let control = &self.control;
                let text = topic.text();
                let is_given_up = given_up(control);
                let answer = self.questions.ask(&text, Question::Secret, is_given_up);
                // Another host asks again if this one is given up.
                if answer.is_some() || !control.is_abandoned() {
                    answers.insert(topic.clone(), answer.clone());
                }
                answer
            }
        };
        self.used.insert(topic, answer.clone());
        answer
    }
}

impl Interaction for HostInteraction {
    fn ask(&mut self, prompt: &str, question: Question) -> SharedAnswer {
        if let Some(topic) = Topic::of(prompt, question) {
            return self.shared(topic);
        }
        let _turn = locked(&self.questions.answers);
        // Given up while another host's question was open.
        if self.control.is_abandoned() {
            return None;
        }
        let text = std::mem::take(&mut self.pending);
        let text = format!("{text}{prompt}");
        self.questions.ask(&text, question, given_up(&self.control))
    }

    fn tell(&mut self, text: &str) {
        self.pending.push_str(text);
    }

    fn can_ask(&self) -> bool {
        self.questions.prompter_can_ask
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_shared_by_user_and_nothing_else_is() {
        let of = |prompt| Topic::of(prompt, Question::Secret);
        let password = Some(Topic::Password("bob".into()));
        assert_eq!(of("bob@n1's password: "), password);
        assert_eq!(of("(bob@n2) Password: "), password);
        assert_eq!(of("(bob@n2) password:"), password);
        assert_eq!(of("(bob@n2) Verification code: "), None);
        assert_eq!(of("Enter bob@n1's old password: "), None);
        assert_eq!(of("Enter bob@n1's new password: "), None);
        assert_eq!(Topic::of("(bob@n2) Password: ", Question::Line), None);
        let of_jump = |leading: &str, prompt: &str, question| {
            Topic::of_jump("bob@jump:22", leading, prompt, question).is_some()
        };
        assert!(of_jump(
            "Denied.\n",
            "bob@jump's password: ",
            Question::Secret
        ));
        assert!(of_jump("key is SHA256:x.\n", "Sure? ", Question::Confirm));
        assert!(!of_jump("", "Type 'yes' or 'no': ", Question::Confirm));
        assert!(!of_jump(
            "",
            "(bob@jump) Verification code: ",
            Question::Secret
        ));
        // A server's prompt that ends as another question does.
        for asked in ["bob@jump's password: ", "Enter passphrase for key '/k': "] {
            let prompt = format!("(bob@evil) Password:\n{asked}");
            assert!(!of_jump("", &prompt, Question::Secret), "{prompt}");
        }
        // A jump's password is that of its port; a passphrase is that of its file.
        let at = |login: &str, prompt: &str| Topic::of_jump(login, "", prompt, Question::Secret);
        let (one, other) = ("bob@jump:22", "bob@jump:2222");
        for prompt in ["bob@jump's password: ", "(bob@jump) Password: "] {
            assert_eq!(at(one, prompt), at(one, prompt));
            assert_ne!(at(one, prompt), at(other, prompt));
            assert_eq!(at(one, prompt).unwrap().text(), prompt);
            let shown = at(other, prompt).unwrap().text();
            assert_eq!(shown, format!("bob@jump:2222: {prompt}"));
        }
        let key = "Enter passphrase for key '/k': ";
        assert_eq!(at(one, key), at(other, key));
        assert_eq!(of(key), Some(Topic::Passphrase(key.into())));
    }
}
