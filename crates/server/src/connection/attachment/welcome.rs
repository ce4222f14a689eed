//! How a stream begins: history, the answer to who enters, and what it can do then.

use std::sync::Arc;

use domain::{Cursor, EventSeq};
use session::{Delivery, Item};
use wire::acp;
use wire::rpc::RpcError;

use super::{Pump, Reply};
use crate::connection::commands;
use crate::connection::outbox::{Frame, Gone};

impl Pump {
    /// Answers who entered, once it has been told what was there, and says what it can do now.
    pub(super) async fn welcome(
        &mut self,
        (cursor, passed): (Cursor, EventSeq),
        replies: &mut Vec<Reply>,
    ) -> Result<(), Gone> {
        // Requests that this one overtook are answered with it.
        if replies.last().is_some_and(|reply| reply.after <= passed) {
            // All at once: if the client leaves meanwhile, none of them is forgotten.
            let replies = std::mem::take(replies).into_iter();
            let told = replies.filter_map(|reply| {
                let told = self.answers.result_in_stream(&reply.id, &reply.result);
                told.map(Frame::once)
            });
            self.route.send(told.collect()).await?;
        }
        if replies.is_empty() && passed >= self.attached_at {
            if self.route.is_on_detour() {
                self.route.arrive(cursor).await?;
            }
            Box::pin(self.offer_commands()).await?;
            self.ask_open_questions().await?;
        }
        Ok(())
    }

    /// Delivers what came after `cursor` and may lead past where the client attached: what happens
    /// after that, questions above all, comes after its answer.
    pub(super) async fn deliver_history(
        &mut self,
        cursor: Cursor,
        mut deliveries: Vec<Delivery>,
        replies: &mut Vec<Reply>,
    ) -> Result<(), Gone> {
        let is_news = |delivery: &Delivery| delivery.cursor.seq > self.attached_at;
        let Some(at) = deliveries.iter().position(is_news) else {
            return self.deliver(deliveries).await;
        };
        let news = deliveries.split_off(at);
        let cursor = deliveries.last().map_or(cursor, |delivery| delivery.cursor);
        let mut told = self.deliver(deliveries).await;
        if told.is_ok() {
            told = self.welcome((cursor, self.attached_at), replies).await;
        }
        if told.is_ok() {
            return self.deliver(news).await;
        }
        // It enters anew, and reads the rest there; but its prompts are answered only once.
        let mut frames = Vec::new();
        for delivery in news {
            if let Item::Event(stored) = &delivery.item {
                self.settle(&stored.event, &mut frames);
            }
        }
        self.route.send(frames).await.and(told)
    }

    /// Whoever is still entering does not get in.
    pub(super) async fn refuse(
        &mut self,
        replies: &mut Vec<Reply>,
        refusal: &RpcError,
    ) -> Result<(), Gone> {
        let refused = std::mem::take(replies).into_iter().filter_map(|reply| {
            let refused = self.answers.error_in_stream(&reply.id, refusal.clone());
            refused.map(Frame::once)
        });
        self.route.send(refused.collect()).await
    }

    /// Tells the client which commands its person can type, if it does not know or a turn has seen
    /// others since.
    async fn offer_commands(&mut self) -> Result<(), Gone> {
        let prepared = self.view.commands();
        let is_news = |seen: &Arc<session::Project>| self.offered.is_news(seen, &prepared);
        let project = match self.offered.is_begun() {
            true => self.view.seen().filter(is_news),
            false => Some(self.view.look().await),
        };
        let Some(project) = project else {
            return Ok(());
        };
        self.offered.take(&project, &prepared);
        let commands = commands::of(&project.library, &prepared);
        let frame = acp::available_commands_update(self.session, &commands);
        if self.offered.is_known(&frame) {
            return Ok(());
        }
        self.send(Some(frame)).await
    }

    async fn ask_open_questions(&mut self) -> Result<(), Gone> {
        if !self.may_act || self.questions.is_empty() {
            return Ok(());
        }
        let questions = std::mem::take(&mut self.questions);
        let frames: Vec<_> = questions.iter().map(|asked| self.question(asked)).collect();
        self.route.send(frames).await
    }
}
