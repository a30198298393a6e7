//! The form for a new session: agent, directory, interface, prompt.
//!
//! Promise: the first typed character replaces a suggested text; every other key keeps it.
//! Not here: drawing (`view::form`), starting (`actions`).
//! Start with [`NewSessionForm::key`].

use crate::composer::{Composer, TextTooLong};
use crate::keys::KeyPress;

/// How many suggestions are offered at once.
pub(crate) const MOST_SUGGESTIONS: usize = 8;

/// The contents of the form.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct NewSessionForm {
    pub(crate) field: FormField,
    agent: FormInput,
    dir: FormInput,
    pub(crate) interface: InterfaceChoice,
    prompt: FormInput,
    agents: Vec<FormSuggestion>,
    dirs: Vec<FormSuggestion>,
}

/// A field of the form, in order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FormField {
    Agent,
    Directory,
    Interface,
    Prompt,
}

impl FormField {
    pub(crate) const ALL: [Self; 4] = [Self::Agent, Self::Directory, Self::Interface, Self::Prompt];

    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Agent => "Agent",
            Self::Directory => "Directory",
            Self::Interface => "Interface",
            Self::Prompt => "Prompt",
        }
    }

    fn step(self, by: isize) -> Self {
        let at = Self::ALL.iter().position(|field| *field == self).unwrap_or(0);
        Self::ALL[at.saturating_add_signed(by).min(Self::ALL.len() - 1)]
    }
}

/// The interface to the agent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum InterfaceChoice {
    /// Turns, in berth's chat.
    #[default]
    Chat,
    /// The agent's own interface, in a terminal.
    Own,
}

impl InterfaceChoice {
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Own => "the agent's own, in a terminal",
        }
    }

    fn other(self) -> Self {
        match self {
            Self::Chat => Self::Own,
            Self::Own => Self::Chat,
        }
    }
}

/// A suggestion for a field.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct FormSuggestion {
    pub(crate) text: String,
    /// A short description, if the text needs one.
    pub(crate) about: String,
}

/// A text field.
#[derive(Clone, PartialEq, Debug, Default)]
struct FormInput {
    text: Composer,
    /// The text that the user typed: suggestions must match it.
    typed: String,
    /// True if the text was suggested: the next character replaces it.
    is_suggested: bool,
}

impl FormInput {
    fn suggested(text: String) -> Self {
        Self { text: Composer::with(text), typed: String::new(), is_suggested: true }
    }
}

/// The effect of a key on the form.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FormStep {
    /// The form stays open.
    Stay,
    /// Start the session.
    Start,
}

impl NewSessionForm {
    /// A form with the most likely agent and directory, and other directories to choose.
    pub(crate) fn new(agent: String, dir: String, dirs: Vec<String>) -> Self {
        let dirs = dirs.into_iter().map(|text| FormSuggestion { text, about: String::new() }).collect();
        Self {
            field: FormField::Agent,
            agent: FormInput::suggested(agent),
            dir: FormInput::suggested(dir),
            interface: InterfaceChoice::default(),
            prompt: FormInput::default(),
            agents: Vec::new(),
            dirs,
        }
    }

    /// Sets the agents to choose from, once they are known.
    pub(crate) fn set_agents(&mut self, agents: Vec<FormSuggestion>) {
        if self.agent.is_suggested
            && self.agent.text.text().is_empty()
            && let Some(first) = agents.first()
        {
            self.agent = FormInput::suggested(first.text.clone());
        }
        self.agents = agents;
    }

    pub(crate) fn text(&self, field: FormField) -> Option<&Composer> {
        match field {
            FormField::Agent => Some(&self.agent.text),
            FormField::Directory => Some(&self.dir.text),
            FormField::Prompt => Some(&self.prompt.text),
            FormField::Interface => None,
        }
    }

    /// The text of a field, as it is used.
    pub(crate) fn value(&self, field: FormField) -> String {
        self.text(field).map(|text| text.text().to_owned()).unwrap_or_default()
    }

    /// Suggestions for the field with the cursor: those that contain all typed words.
    pub(crate) fn suggestions(&self) -> Vec<&FormSuggestion> {
        let (all, input) = match self.field {
            FormField::Agent => (&self.agents, &self.agent),
            FormField::Directory => (&self.dirs, &self.dir),
            FormField::Interface | FormField::Prompt => return vec![],
        };
        let typed = input.typed.to_lowercase();
        let fits = |one: &&FormSuggestion| {
            typed.split_whitespace().all(|word| one.text.to_lowercase().contains(word))
        };
        all.iter().filter(fits).take(MOST_SUGGESTIONS).collect()
    }

    /// Applies a key. Leaving the form is up to the caller.
    pub(crate) fn key(&mut self, key: KeyPress) -> Result<FormStep, TextTooLong> {
        match (key, self.field) {
            (KeyPress::Enter, FormField::Prompt) => return Ok(FormStep::Start),
            (KeyPress::Tab | KeyPress::Enter, _) => self.field = self.field.step(1),
            (KeyPress::BackTab, _) => self.field = self.field.step(-1),
            (KeyPress::Up, FormField::Prompt) => self.field = self.field.step(-1),
            (
                KeyPress::Up | KeyPress::Down | KeyPress::Left | KeyPress::Right | KeyPress::Char(' '),
                FormField::Interface,
            ) => {
                self.interface = self.interface.other();
            }
            (KeyPress::Up, _) => self.choose(-1),
            (KeyPress::Down, _) => self.choose(1),
            (KeyPress::NewLine, FormField::Prompt) => self.write("\n")?,
            (key, _) => self.edit(key)?,
        }
        Ok(FormStep::Stay)
    }

    /// Inserts text into the field with the cursor; only a prompt has several lines.
    pub(crate) fn write(&mut self, text: &str) -> Result<(), TextTooLong> {
        let line =
            if self.field == FormField::Prompt { text } else { text.lines().next().unwrap_or_default() };
        let Some(input) = self.input() else { return Ok(()) };
        if std::mem::take(&mut input.is_suggested) {
            input.text = Composer::default();
        }
        input.text.insert(line)?;
        input.typed = input.text.text().to_owned();
        Ok(())
    }

    fn edit(&mut self, key: KeyPress) -> Result<(), TextTooLong> {
        if let KeyPress::Char(c) = key {
            return self.write(c.encode_utf8(&mut [0; 4]));
        }
        let Some(input) = self.input() else { return Ok(()) };
        let before = input.text.text().to_owned();
        input.text.edit(key)?;
        input.is_suggested = false;
        if input.text.text() != before {
            input.typed = input.text.text().to_owned();
        }
        Ok(())
    }

    /// Selects a later suggestion, or an earlier one if `by` is negative.
    fn choose(&mut self, by: isize) {
        let all: Vec<String> = self.suggestions().into_iter().map(|one| one.text.clone()).collect();
        let Some(input) = self.input() else { return };
        let at = all.iter().position(|one| one == input.text.text());
        let next = match at {
            Some(at) => at.saturating_add_signed(by).min(all.len() - 1),
            None => 0,
        };
        if let Some(text) = all.get(next) {
            *input =
                FormInput { typed: std::mem::take(&mut input.typed), ..FormInput::suggested(text.clone()) };
        }
    }

    fn input(&mut self) -> Option<&mut FormInput> {
        match self.field {
            FormField::Agent => Some(&mut self.agent),
            FormField::Directory => Some(&mut self.dir),
            FormField::Prompt => Some(&mut self.prompt),
            FormField::Interface => None,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    fn suggestion(text: &str) -> FormSuggestion {
        FormSuggestion { text: text.to_owned(), about: String::new() }
    }

    /// A form with two agents and two directories to choose from.
    pub(crate) fn form() -> NewSessionForm {
        let dirs = vec!["/src/berth".to_owned(), "/src/other".to_owned()];
        let mut form = NewSessionForm::new("claude".to_owned(), "/home".to_owned(), dirs);
        form.set_agents(["claude", "codex"].map(suggestion).into());
        form
    }

    fn press(form: &mut NewSessionForm, keys: &str) {
        for c in keys.chars() {
            assert_eq!(form.key(KeyPress::Char(c)), Ok(FormStep::Stay));
        }
    }

    #[test]
    fn a_suggested_text_is_replaced_by_typing_and_kept_by_other_keys() {
        let mut form = form();
        press(&mut form, "co");
        assert_eq!(form.value(FormField::Agent), "co");
        assert_eq!(form.suggestions(), [&suggestion("codex")]);
        form.key(KeyPress::Down).expect("short");
        assert_eq!(form.value(FormField::Agent), "codex");
        form.key(KeyPress::Tab).expect("short");
        form.key(KeyPress::End).expect("short");
        press(&mut form, "/me");
        assert_eq!(form.value(FormField::Directory), "/home/me");
    }

    #[test]
    fn suggestions_are_chosen_with_arrows_and_enter_goes_from_field_to_field_until_it_starts() {
        let mut form = form();
        form.key(KeyPress::Down).expect("short");
        assert_eq!(form.value(FormField::Agent), "codex");
        assert_eq!(form.key(KeyPress::Enter), Ok(FormStep::Stay));
        for expected in ["/src/berth", "/src/other", "/src/other"] {
            form.key(KeyPress::Down).expect("short");
            assert_eq!(form.value(FormField::Directory), expected);
        }
        form.key(KeyPress::Enter).expect("short");
        press(&mut form, " ");
        assert_eq!(form.interface, InterfaceChoice::Own);
        form.key(KeyPress::Left).expect("short");
        form.key(KeyPress::Enter).expect("short");
        press(&mut form, "mend");
        form.key(KeyPress::NewLine).expect("short");
        form.write("it\nnow").expect("short");
        assert_eq!(form.key(KeyPress::Enter), Ok(FormStep::Start));
        assert_eq!(
            (form.value(FormField::Prompt), form.interface),
            ("mend\nit\nnow".into(), InterfaceChoice::Chat)
        );
        form.key(KeyPress::BackTab).expect("short");
        assert_eq!(form.field, FormField::Interface);
    }

    #[test]
    fn a_paste_into_a_field_of_one_line_is_its_first_line() {
        let mut form = form();
        form.key(KeyPress::Tab).expect("short");
        form.write("/tmp\nrm -rf /\n").expect("short");
        assert_eq!(form.value(FormField::Directory), "/tmp");
    }
}
