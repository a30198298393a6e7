//! `[notify]`: of what people are told while they do not look, and how.
//!
//! Not here: telling them (see `notify` in the CLI).

use std::collections::BTreeMap;
use std::io::Read;
use std::path::PathBuf;
use std::time::Duration;

use berth_api::Problem;
use berth_core::{Name, Occasion};

use super::keys::{Found, Keys};
use super::registry::{Key, Kind, Table};

/// More than anybody has; each is told at the same time.
const MAX_WEBHOOKS: usize = 20;
/// A longer file is no secret.
const MAX_SECRET_BYTES: u64 = 4096;
/// Where Telegram listens.
const TELEGRAM: &str = "https://api.telegram.org";

pub const TABLE: Table = Table {
    path: "notify",
    about: "Tells you that a session needs you, finished or failed, while no client is attached to it, follows its \
            turn or watches it. Nothing is sent unless one of the ways here is set up; `berth notify test` tries them.",
    keys: &[
        Key::new(
            "on",
            Kind::Choices(&["needs-you", "failed", "finished"]),
            "Of what you are told; `berth run --notify` overrides it for one session",
        )
        .default("needs-you,failed,finished"),
        Key::new(
            "terminal",
            Kind::Switch,
            "Ring the bell of the terminals whose current session it is, and send them a notification. It is \
             written into what another program draws there",
        )
        .default("false"),
        Key::new(
            "terminal_style",
            Kind::Choice(&["auto", "bell", "osc9", "osc777", "both"]),
            "What a terminal is sent with the bell: OSC 9, OSC 777, or with `auto` the one it probably knows",
        )
        .default("auto"),
        Key::new("desktop", Kind::Switch, "Show it on the desktop, with `notify-send`").default("false"),
        Key::new(
            "command",
            Kind::Words,
            "Run this. It is told everything in variables beginning with BERTH_EVENT_ and as JSON on its standard \
             input. No shell reads it",
        )
        .otherwise("none is run")
        .example("[\"/home/me/bin/tell-me\", \"--loud\"]"),
        Key::new("command_timeout", Kind::Time, "How long that may take before it is killed with what it started")
            .default("10s"),
    ],
};

pub(super) const WEBHOOK: Table = Table {
    path: "notify.webhook",
    about: "A web address that is told. For several, give each a name: [notify.webhooks.NAME].",
    keys: &WEBHOOK_KEYS,
};

pub(super) const WEBHOOKS: Table = Table {
    path: "notify.webhooks.NAME",
    about: "The same under a name. There is room for 20.",
    keys: &WEBHOOK_KEYS,
};

const WEBHOOK_KEYS: [Key; 6] = [
    Key::new(
        "url",
        Kind::Text,
        "Where: https://… (http:// is for this machine and your own network). For ntfy it ends with the topic",
    )
    .otherwise("needed, but for Telegram")
    .example("\"https://api.telegram.org\"")
    .secret(),
    Key::new("format", Kind::Choice(&["json", "ntfy", "telegram"]), "The format that the receiver expects")
        .default("json")
        .example("\"telegram\""),
    Key::new(
        "secret",
        Kind::Text,
        "For json what signs it (base64, as `openssl rand -base64 32` prints it), for ntfy the access token, for \
         Telegram the bot's token. `file:/PATH` and `env:NAME` say where it is instead",
    )
    .otherwise("not signed, or no token")
    .example("\"file:/home/me/.config/berth/bot-token\"")
    .secret(),
    Key::new("chat", Kind::Text, "Telegram's id of the chat").otherwise("needed for Telegram").example("\"123456\""),
    Key::new("timeout", Kind::Time, "How long one try may take").default("10s"),
    Key::new("tries", Kind::Count(1, 20), "How often it is tried while the other side is in trouble, at most")
        .default("5"),
];

/// What `[notify]` says.
#[derive(Debug)]
pub struct NotifyKeys {
    /// Of what.
    pub on: Vec<Occasion>,
    pub terminal: bool,
    pub terminal_style: Style,
    pub desktop: bool,
    pub command: Option<Vec<String>>,
    pub command_timeout: Duration,
    /// By name; the one without is called nothing.
    pub webhooks: BTreeMap<String, Webhook>,
}

/// What a terminal is sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Style {
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
pub struct Webhook {
    pub url: String,
    pub format: Format,
    pub secret: Option<Secret>,
    /// Telegram's chat.
    pub chat: String,
    /// How long one try may take.
    pub timeout: Duration,
    pub tries: u64,
}

/// What a service wants to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Format {
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
pub enum Secret {
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
    /// Where the secret is: here, in `file:/PATH`, or in the variable of `env:NAME`.
    fn meant(text: String) -> Result<Self, &'static str> {
        if let Some(path) = text.strip_prefix("file:") {
            let path = PathBuf::from(path);
            return if path.is_absolute() {
                Ok(Self::File(path))
            } else {
                Err("names a file that does not begin with `/`")
            };
        }
        if let Some(name) = text.strip_prefix("env:") {
            let is_name = !name.is_empty() && !name.contains(['=', ' ']);
            return if is_name { Ok(Self::Variable(name.to_owned())) } else { Err("names no variable") };
        }
        Ok(Self::Text(text))
    }

    /// The secret itself. The error says where it is not.
    pub fn read(&self) -> Result<String, String> {
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
    pub(crate) fn read(mut keys: Keys<'_>) -> Result<Self, Problem> {
        let mut webhooks = BTreeMap::new();
        let without_name = Webhook::read(keys.table("webhook")?, false)?;
        webhooks.extend(without_name.map(|hook| (String::new(), hook)));
        for (name, inner) in keys.tables("webhooks")? {
            if let Err(bad) = Name::parse(&name) {
                return Err(inner.refusal(&format!("`{name}` cannot be a webhook's name: {bad}")));
            }
            if webhooks.len() == MAX_WEBHOOKS {
                return Err(inner.refusal(&format!("there are more than {MAX_WEBHOOKS} webhooks")));
            }
            webhooks.extend(Webhook::read(inner, true)?.map(|hook| (name, hook)));
        }
        let read = Self {
            on: keys.choices("on", &Occasion::ALL, Occasion::word)?.unwrap_or_default(),
            terminal: keys.switch("terminal")?.unwrap_or_default(),
            terminal_style: keys.choice("terminal_style", &Style::ALL, Style::name)?.unwrap_or_default(),
            desktop: keys.switch("desktop")?.unwrap_or_default(),
            command: command(&mut keys)?,
            command_timeout: keys.time("command_timeout")?.unwrap_or_default(),
            webhooks,
        };
        keys.finish()?;
        Ok(read)
    }
}

fn command(keys: &mut Keys<'_>) -> Result<Option<Vec<String>>, Problem> {
    let Some(Found { origin, value }) = keys.words("command")? else { return Ok(None) };
    if value.first().is_some_and(String::is_empty) {
        return Err(keys
            .refuse("command", &origin, "begins with an empty word")
            .hint("the first word names a program, the others are given to it"));
    }
    Ok(Some(value).filter(|words| !words.is_empty()))
}

impl Webhook {
    /// `None` if nothing is said about one that need not be.
    fn read(mut keys: Keys<'_>, is_needed: bool) -> Result<Option<Self>, Problem> {
        let format = keys.choice("format", &Format::ALL, Format::name)?.unwrap_or_default();
        let url = keys.text("url")?;
        let chat = keys.text("chat")?;
        let secret = keys.text("secret")?;
        let timeout = keys.time("timeout")?.unwrap_or_default();
        let tries = keys.count("tries")?.unwrap_or(1);
        let is_telegram = format == Format::Telegram;
        if !is_needed && !is_telegram && url.is_none() && chat.is_none() && secret.is_none() {
            return keys.finish().map(|()| None);
        }
        if is_telegram && (chat.is_none() || secret.is_none()) {
            return Err(keys
                .refusal("Telegram needs `chat`, and the bot's token as `secret`")
                .hint("docs/notifications.md shows how to find both"));
        }
        if let Some(chat) = chat.as_ref().filter(|_| !is_telegram) {
            return Err(keys.refuse("chat", &chat.origin, "is for format = \"telegram\""));
        }
        let secret = match secret {
            Some(Found { origin, value }) => {
                Some(Secret::meant(value).map_err(|what| keys.refuse("secret", &origin, what))?)
            }
            None => None,
        };
        let url = match url {
            Some(Found { origin, value }) if !is_address(&value) => {
                return Err(keys
                    .refuse("url", &origin, "is not a valid address")
                    .hint("it begins with https:// (or http://) and names a host"));
            }
            Some(url) => url.value,
            None if is_telegram => TELEGRAM.to_owned(),
            None => return Err(keys.refusal("a webhook needs a `url`")),
        };
        keys.finish()?;
        let chat = chat.map(|chat| chat.value).unwrap_or_default();
        Ok(Some(Self { url, format, secret, chat, timeout, tries }))
    }
}

fn is_address(url: &str) -> bool {
    let parsed: Result<http::Uri, _> = url.parse();
    parsed.is_ok_and(|uri| {
        matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some_and(|host| !host.is_empty())
    })
}
