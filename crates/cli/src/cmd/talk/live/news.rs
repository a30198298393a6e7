//! What the cursor tells whoever talks.
//!
//! Promise: nothing here starts anything: only a client that sends something starts a session that has no keeper.

use berth_api::message::{Answer, Notice, Request};
use berth_verbs::cursor::News;

use super::{Live, NEWS_AT_ONCE};

impl Live {
    /// Asks to be told what the agent says about the turn it has now.
    pub(super) fn follow_on(&mut self) {
        if self.cursor.fd().is_some()
            && let Some(turn) = self.story.take_follow()
        {
            self.cursor.ask(Request::Follow { turn });
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

    fn hear(&mut self, news: News) {
        match news {
            News::Connected(_) => {
                self.is_away = false;
                self.story.connected();
            }
            News::Event { entry, .. } => self.story.hear(&entry.event),
            News::Notice(Notice::Said { turn, text }) => self.story.said(turn, &text),
            News::Notice(Notice::Doing { turn, what, detail, tokens }) => {
                self.story.doing(turn, &what, &detail, tokens);
            }
            News::Answer(Answer::Problem { problem }) => self.complain(&problem),
            // Told again with every look, and one complaint is enough.
            News::Refused(problem)
            | News::Trouble(problem)
            | News::NoKeeper(Err(problem))
            | News::Purged(problem) => {
                if !std::mem::replace(&mut self.is_away, true) {
                    self.complain(&problem);
                }
            }
            News::Notice(_) | News::Answer(_) | News::NoKeeper(Ok(_)) | News::Silent | News::Lost => {}
        }
    }
}
