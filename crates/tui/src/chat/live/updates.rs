//! News of the session, from the cursor to the chat.
//!
//! Promise: listening starts no keeper. Only a message that is sent starts a session that has none.
//! Start with [`LiveChat::listen`].

use berth_api::message::{KeeperAnswer, KeeperNotice, KeeperRequest};
use berth_verbs::session_cursor::CursorNews;

use super::{LiveChat, NEWS_AT_ONCE};

impl LiveChat {
    /// Subscribes to the agent's messages about its current turn, if the story asks for that.
    pub(super) fn follow_on(&mut self) {
        if self.cursor.fd().is_some()
            && let Some(turn) = self.story.take_follow()
        {
            self.cursor.ask(KeeperRequest::Follow { turn });
        }
    }

    pub(super) fn listen(&mut self) {
        self.cursor.look_if_due();
        for _ in 0..NEWS_AT_ONCE {
            let Some(news) = self.cursor.take() else { return };
            self.hear(news);
            self.follow_on();
        }
    }

    fn hear(&mut self, news: CursorNews) {
        match news {
            CursorNews::Connected(_) => {
                self.is_away = false;
                self.story.connected();
            }
            CursorNews::Event { entry, .. } => self.story.hear(&entry.event),
            CursorNews::Notice(KeeperNotice::Said { turn, text }) => self.story.said(turn, &text),
            CursorNews::Notice(KeeperNotice::Doing { turn, activity, detail, tokens }) => {
                self.story.doing(turn, &activity, &detail, tokens);
            }
            CursorNews::Answer(KeeperAnswer::Problem { problem }) => self.show_problem(&problem),
            // The cursor reports this at every attempt to connect; the chat shows it once.
            CursorNews::Refused(problem)
            | CursorNews::Trouble(problem)
            | CursorNews::NoKeeper(Err(problem))
            | CursorNews::Purged(problem) => {
                if !std::mem::replace(&mut self.is_away, true) {
                    self.show_problem(&problem);
                }
            }
            CursorNews::Notice(_)
            | CursorNews::Answer(_)
            | CursorNews::NoKeeper(Ok(_))
            | CursorNews::Silent
            | CursorNews::Lost => {}
        }
    }
}
