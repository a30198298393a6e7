//! `[notify]`: of what people are told while they do not look, and how.
//!
//! Not here: telling them (see [`crate::notify`]).

use std::collections::BTreeMap;
use std::io::Read;
use std::path::PathBuf;
use std::time::Duration;

use berth_api::Problem;
use berth_core::{Name, Occasion};

use super::keys::{Found, Keys};

/// More than anybody has; each is told at the same time.
const MAX_WEBHOOKS: usize = 20;
/// How long a person's command may take.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(10);
/// How long one try of a webhook may take.
const WEBHOOK_TIMEOUT: Duration = Duration::from_secs(10);
/// How often a webhook is tried.
const TRIES: u64 = 5;
/// A longer file is no secret.
const MAX_SECRET_BYTES: u64 = 4096;
/// Where Telegram listens.
const TELEGRAM: &str = "https://api.telegram.org";

/// What `[notify]` says.
#[derive(Debug)]
pub(crate) struct NotifyKeys {
    /// Of what.
    pub(crate) on: Vec<Occasion>,
    pub(crate) terminal: bool,
    pub(crate) terminal_style: Style,
    pub(crate) desktop: bool,
    pub(crate) command: Option<Vec<String>>,
    pub(crate) command_timeout: Duration,
    /// By name; the one without is called nothing.
    pub(crate) webhooks: BTreeMap<String, Webhook>,
}

impl Default for NotifyKeys {
    fn default() -> Self {
        Self {
            on: Occasion::ALL.to_vec(),
            terminal: false,
            terminal_style: Style::Auto,
            desktop: false,
            command: None,
            command_timeout: COMMAND_TIMEOUT,
            webhooks: BTreeMap::new(),
        }
    }
}

/// What a terminal is sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Style {
    /// The bell, and the sequence this terminal probably knows.
    #[default]
    Auto,
    Bell,
    Osc9,
    Osc777,
    Both,
}

impl Style {
    const ALL: [Self; 5] = [Self::Auto, Self::Bell, Self::Osc9, Self::Osc777, Self::Both];

    fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Bell => "bell",
            Self::Osc9 => "osc9",
            Self::Osc777 => "osc777",
            Self::Both => "both",
        }
    }
}

/// One webhook.
#[derive(Debug)]
pub(crate) struct Webhook {
    pub(crate) url: String,
    pub(crate) format: Format,
    pub(crate) secret: Option<Secret>,
    /// Telegram's chat.
    pub(crate) chat: String,
    /// How long one try may take.
    pub(crate) timeout: Duration,
    pub(crate) tries: u64,
}

/// What a service wants to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Format {
    /// JSON, signed as Standard Webhooks says.
    #[default]
    Json,
    Ntfy,
    Telegram,
}

impl Format {
    const ALL: [Self; 3] = [Self::Json, Self::Ntfy, Self::Telegram];

    fn name(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Ntfy => "ntfy",
            Self::Telegram => "telegram",
        }
    }
}

/// Where a secret is.
pub(crate) enum Secret {
    Text(String),
    File(PathBuf),
    Variable(String),
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Text(_) => f.write_str("Text(***)"),
            Self::File(path) => write!(f, "File({})", path.display()),
            Self::Variable(name) => write!(f, "Variable({name})"),
        }
    }
}

impl Secret {
    /// The secret itself. The error says where it is not.
    pub(crate) fn read(&self) -> Result<String, String> {
        let (text, place) = match self {
            Self::Text(text) => (text.clone(), "`secret`".to_owned()),
            Self::File(path) => {
                let place = path.display().to_string();
                let mut text = String::new();
                let file = std::fs::File::open(path);
                file.and_then(|file| file.take(MAX_SECRET_BYTES).read_to_string(&mut text))
                    .map_err(|error| format!("cannot read the secret in {place}: {error}"))?;
                (text, place)
            }
            Self::Variable(name) => {
                let text = std::env::var(name);
                (text.map_err(|_| format!("the variable {name} with the secret is not set"))?, name.clone())
            }
        };
        let text = text.trim();
        if text.is_empty() || text.contains(char::is_control) {
            return Err(format!("the secret in {place} is empty or has more than one line"));
        }
        Ok(text.to_owned())
    }
}

impl NotifyKeys {
    pub(super) fn read(keys: Option<Keys<'_>>) -> Result<Self, Problem> {
        let Some(mut keys) = keys else { return Ok(Self::default()) };
        let usual = Self::default();
        let mut webhooks = BTreeMap::new();
        if let Some(inner) = keys.sub("webhook")? {
            webhooks.insert(String::new(), Webhook::read(inner)?);
        }
        for (name, inner) in keys.tables("webhooks")? {
            if let Err(bad) = Name::parse(&name) {
                return Err(
                    inner.refusal(inner.line(), &format!("`{name}` cannot be a webhook's name: {bad}"))
                );
            }
            if webhooks.len() == MAX_WEBHOOKS {
                let what = format!("there are more than {MAX_WEBHOOKS} webhooks");
                return Err(inner.refusal(inner.line(), &what));
            }
            webhooks.insert(name, Webhook::read(inner)?);
        }
        let read = Self {
            on: keys.choices("on", &Occasion::ALL, Occasion::word)?.unwrap_or(usual.on),
            terminal: keys.switch("terminal")?.unwrap_or_default(),
            terminal_style: keys.choice("terminal_style", &Style::ALL, Style::name)?.unwrap_or_default(),
            desktop: keys.switch("desktop")?.unwrap_or_default(),
            command: command(&mut keys)?,
            command_timeout: keys.time("command_timeout")?.unwrap_or(usual.command_timeout),
            webhooks,
        };
        keys.finish()?;
        Ok(read)
    }
}

fn command(keys: &mut Keys<'_>) -> Result<Option<Vec<String>>, Problem> {
    let Some(Found { line, value }) = keys.words("command")? else { return Ok(None) };
    if value.first().is_some_and(String::is_empty) {
        let what = format!("`command` in {} begins with an empty word", keys.place());
        return Err(keys
            .refusal(line, &what)
            .hint("the first word names a program, the others are given to it"));
    }
    Ok(Some(value).filter(|words| !words.is_empty()))
}

impl Webhook {
    fn read(mut keys: Keys<'_>) -> Result<Self, Problem> {
        let format = keys.choice("format", &Format::ALL, Format::name)?.unwrap_or_default();
        let url = keys.text("url")?;
        let chat = keys.text("chat")?.map(|found| found.value);
        let secrets = [
            keys.text("secret")?.map(|found| Secret::Text(found.value)),
            keys.text("secret_file")?.map(|found| Secret::File(found.value.into())),
            keys.text("secret_env")?.map(|found| Secret::Variable(found.value)),
        ];
        let timeout = keys.time("timeout")?.unwrap_or(WEBHOOK_TIMEOUT);
        let tries = keys.count("tries", 1, 20)?.unwrap_or(TRIES);
        let mut secrets = secrets.into_iter().flatten();
        let (secret, second) = (secrets.next(), secrets.next());
        let refuse = |line: usize, what: &str| keys.refusal(line, &format!("{} {what}", keys.place()));
        let line = keys.line();
        if second.is_some() {
            return Err(refuse(line, "has more than one of `secret`, `secret_file`, `secret_env`"));
        }
        if let Some(Secret::File(path)) = &secret
            && !path.is_absolute()
        {
            return Err(refuse(line, "has a `secret_file` that does not begin with `/`"));
        }
        let is_telegram = format == Format::Telegram;
        if is_telegram && (chat.is_none() || secret.is_none()) {
            return Err(refuse(line, "needs `chat` and the bot's token as `secret_file` for Telegram")
                .hint("docs/notifications.md shows how to find both"));
        }
        if !is_telegram && chat.is_some() {
            return Err(refuse(line, "has a `chat`, which is for format = \"telegram\""));
        }
        let url_line = url.as_ref().map_or(line, |url| url.line);
        let url = match url {
            Some(url) => url.value,
            None if is_telegram => TELEGRAM.to_owned(),
            None => return Err(refuse(line, "needs a `url`")),
        };
        if !is_address(&url) {
            return Err(refuse(url_line, "has a `url` that is none")
                .hint("it begins with https:// (or http://) and names a host"));
        }
        keys.finish()?;
        Ok(Self { url, format, secret, chat: chat.unwrap_or_default(), timeout, tries })
    }
}

fn is_address(url: &str) -> bool {
    let parsed: Result<ureq::http::Uri, _> = url.parse();
    parsed.is_ok_and(|uri| {
        matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some_and(|host| !host.is_empty())
    })
}
