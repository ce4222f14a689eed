//! Making room: when the conversation no longer fits its model, older parts of it are left out.
//!
//! First the old output of tools goes, then everything but the newest messages becomes a summary
//! ([`summary`] writes it). Each is an event; the journal keeps what it had.

use domain::event::{Compaction, CompactionKind};
use llm::ModelError;
use tokio::sync::oneshot;

use super::{Stopped, Turn, summary, unless_cancelled};
use crate::context::{Cut, Plan, tokens_in, tokens_of};
use crate::report::{Context, Report};

/// When a conversation counts as too long.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// Tokens that count as the model's window, if that is to be less than it is.
    pub window: Option<u64>,
    /// How full it may be, in per cent; 0 is never too full.
    pub percent: u32,
}

/// Why a conversation is made shorter.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Why<'a> {
    /// It is close to the end of the model's window.
    Crowded,
    /// The model has refused it.
    Refused,
    /// A person wants it, with attention to this.
    Wanted(&'a str),
}

/// Whether a conversation became shorter.
#[derive(PartialEq, Eq)]
pub(super) enum Compacted {
    /// It did.
    Shorter,
    /// There was nothing to leave out.
    Not,
    /// A hook said no, and why.
    Stopped(String),
}

/// The part of the window that stays as it is when the rest is summarised: one in ten tokens.
const KEPT_PART: u64 = 10;

/// Most tokens that stay as they are.
const KEPT_TOKENS_MAX: u64 = 20_000;

impl Turn {
    /// The conversation, shortened if it has become too long.
    pub(super) async fn room_to_answer(&mut self) -> Result<Context, Stopped> {
        self.prepare_model().await?;
        let context = self.context().await?;
        if !self.is_crowded(&context) || self.gave_up_at >= context.tokens {
            return Ok(context);
        }
        drop(context.messages);
        match self.compact(Why::Crowded).await {
            // It may still fit; if it does not, the model says so.
            Err(Stopped::Model(error)) => {
                tracing::warn!(%error, "the conversation could not be summarised");
                self.gave_up().await
            }
            Ok(Compacted::Not | Compacted::Stopped(_)) => self.gave_up().await,
            Err(stopped) => Err(stopped),
            Ok(Compacted::Shorter) => self.context().await,
        }
    }

    /// The conversation as it is: trying again before it has grown a good deal would only fail
    /// again.
    async fn gave_up(&mut self) -> Result<Context, Stopped> {
        let context = self.context().await?;
        self.gave_up_at = context.tokens + self.window() / KEPT_PART;
        Ok(context)
    }

    /// Makes the conversation shorter; says whether it became so.
    pub(super) async fn compact(&mut self, why: Why<'_>) -> Result<Compacted, Stopped> {
        let wish = match self.before_compacting(why).await? {
            Ok(wish) => wish,
            Err(why) => return Ok(Compacted::Stopped(why)),
        };
        let before = self.context().await?.tokens;
        let Plan { prune, cut } = self.plan().await?;
        let mut tokens = before;
        if let Some(prune) = prune {
            tokens = before.saturating_sub(prune.frees);
            let kind = CompactionKind::Pruned;
            self.store(kind, prune.up_to, None, (before, tokens))
                .await?;
            let context = self.context().await?;
            if why == Why::Crowded && !self.is_crowded(&context) {
                return Ok(Compacted::Shorter);
            }
        }
        let Some(cut) = cut else {
            return Ok(prune.map_or(Compacted::Not, |_| Compacted::Shorter));
        };
        let text = self.summary(cut, why, &wish).await?;
        let context = self.context().await?;
        let kept = context.messages.get(cut.messages..).unwrap_or_default();
        let after = self.overhead + tokens_of(kept) + tokens_in(text.len());
        drop(context);
        let kind = CompactionKind::Summary;
        self.store(kind, cut.up_to, Some(text), (tokens, after))
            .await?;
        Ok(Compacted::Shorter)
    }

    /// The summary of what lies before the cut. If no model can write one and there is no way on
    /// without it, excerpts take its place.
    async fn summary(&mut self, cut: Cut, why: Why<'_>, wish: &str) -> Result<String, Stopped> {
        let context = self.context().await?;
        let older = context.messages.get(..cut.messages).unwrap_or_default();
        let focus = match why {
            Why::Wanted(focus) => focus,
            Why::Crowded | Why::Refused => "",
        };
        let focus = [focus, wish].join("\n");
        let request = summary::request(older, focus.trim(), self.window());
        let files = summary::files(older);
        let written = match self.ask_summary(request).await {
            Ok(written) if !written.trim().is_empty() => written,
            Ok(_) | Err(Stopped::Model(_)) if why == Why::Refused => summary::excerpts(older),
            Ok(_) => return Err(Stopped::Model(ModelError::Unusable { what: "no summary" })),
            Err(stopped) => return Err(stopped),
        };
        Ok(format!("{}\n{files}", written.trim()))
    }

    async fn store(
        &mut self,
        kind: CompactionKind,
        up_to: domain::EventSeq,
        text: Option<String>,
        (tokens_before, tokens_after): (u64, u64),
    ) -> Result<(), Stopped> {
        // What was read may no longer stand above.
        self.repeats.forget_looks();
        let compaction = Compaction {
            kind,
            up_to,
            text,
            tokens_before,
            tokens_after,
            context_window: Some(self.window()),
        };
        let (stored, told) = oneshot::channel();
        self.report(Report::Compacted { compaction, stored })
            .await?;
        let told = unless_cancelled(&self.cancel, told).await?;
        told.map_err(|_| Stopped::Abandoned)
    }

    /// The conversation as it stands.
    pub(super) async fn context(&mut self) -> Result<Context, Stopped> {
        let (reply, context) = oneshot::channel();
        self.report(Report::Context { reply }).await?;
        context.await.map_err(|_| Stopped::Abandoned)
    }

    async fn plan(&mut self) -> Result<Plan, Stopped> {
        let (reply, plan) = oneshot::channel();
        let keep_tokens = (self.window() / KEPT_PART).min(KEPT_TOKENS_MAX);
        self.report(Report::Plan { keep_tokens, reply }).await?;
        plan.await.map_err(|_| Stopped::Abandoned)
    }

    /// Tokens that fit into one call.
    pub(super) fn window(&self) -> u64 {
        let window = self.model.context_window();
        self.room.window.map_or(window, |room| room.min(window))
    }

    fn is_crowded(&self, context: &Context) -> bool {
        let percent = u64::from(self.room.percent);
        let beside = if context.is_counted { 0 } else { self.overhead };
        let used = context.tokens + beside;
        percent > 0 && used.saturating_mul(100) > self.window().saturating_mul(percent)
    }
}
