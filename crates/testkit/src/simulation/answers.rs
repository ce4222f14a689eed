//! What clients are answered, and whether that is what they must be.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "every other answer is wrong"
)]

use domain::SessionId;
use domain::limits::MERGED_CHUNK_BYTES_MAX;
use serde_json::Value;

use super::Verdict;
use super::client::Asked;
use super::record::{End, Record};
use super::view::{Cursor, View};
use super::world::{Life, World};

impl World<'_> {
    pub(super) fn on_answer(&mut self, life: &Life, at: usize, frame: &Value) -> Verdict {
        let client = &mut self.clients[at];
        let Some(line) = &mut client.line else {
            return Ok(());
        };
        let asked = frame["id"].as_u64().and_then(|id| line.asked.remove(&id));
        let asked = asked.ok_or("an answer to nothing that was asked, or a second one")?;
        let (result, error) = (&frame["result"], &frame["error"]);
        let code = error["code"].as_i64();
        let is_draining = error["data"]["kind"] == "draining";
        if is_draining && life.is_draining {
            let Asked::Resume(session, _) = asked else {
                return Ok(());
            };
            if line.is_entering(session) {
                return Ok(());
            }
            let aside = line.reentering.remove(&session);
            if aside.is_some() {
                line.inside.insert(session);
            }
            for frame in aside.into_iter().flatten() {
                self.on_frame(life, at, &frame)?;
            }
            return Ok(());
        }
        let doomed = |session: &SessionId| self.doomed.contains(session);
        match asked {
            Asked::Load(session) | Asked::Resume(session, _) | Asked::Close(session)
                if doomed(&session) && matches!(code, None | Some(-32002)) =>
            {
                Ok(())
            }
            Asked::Prompt(session, _) if doomed(&session) => Ok(()),
            Asked::New if code.is_none() => self.on_new(at, result),
            Asked::Load(session) if code.is_none() => self.on_entered(at, session, None, result),
            Asked::Resume(session, cursor) if code.is_none() => {
                self.on_entered(at, session, Some(cursor), result)
            }
            Asked::Prompt(session, prompt) => self.on_prompt_end(at, session, &prompt, frame),
            Asked::Foreign("session/delete") if code.is_none() => Ok(()),
            Asked::Foreign(_) if code == Some(-32002) => Ok(()),
            Asked::Initialize | Asked::Other if code.is_none() => Ok(()),
            Asked::Close(session) if matches!(code, None | Some(-32002)) => {
                line.left(session);
                Ok(())
            }
            other => Err(format!("{other:?} was answered otherwise")),
        }
    }

    fn on_new(&mut self, at: usize, result: &Value) -> Verdict {
        let id = result["sessionId"].as_str().and_then(|id| id.parse().ok());
        let session: SessionId = id.ok_or("a new session without a name")?;
        let client = &mut self.clients[at];
        let owner = self.grounds.people[client.who].id().clone();
        let mut view = View::whole();
        view.token = token_in(result);
        client.views.insert(session, view);
        if let Some(line) = &mut client.line {
            line.inside.insert(session);
        }
        match self.records.insert(session, Record::new(session, owner)) {
            None => Ok(()),
            Some(_) => Err("a new session has the name of another".to_owned()),
        }
    }

    /// A client is let in: by load without, by resume with the cursor that it sent.
    fn on_entered(
        &mut self,
        at: usize,
        session: SessionId,
        resumed: Option<Option<Cursor>>,
        result: &Value,
    ) -> Verdict {
        self.read(session)?;
        let client = &mut self.clients[at];
        let Some(record) = self.records.get(&session) else {
            return Err("let into a session that is not there".to_owned());
        };
        if let Some(line) = &mut client.line {
            line.questions
                .retain(|_, question| question.session != session);
            if line.is_entering(session) {
                // It has asked once more, from where it stood then: this stream is of no use.
                line.reentering.insert(session, Vec::new());
                return Ok(());
            }
            line.reentering.remove(&session);
            line.inside.insert(session);
        }
        let resync = result["_meta"]["fastness"]["resyncFrom"].as_u64();
        match resumed {
            None => {}
            Some(None) => {
                client.views.insert(session, View::from_head(record.head()));
            }
            Some(Some(cursor)) => {
                self.summary.resumes += 1;
                self.summary.resumes_inside += u64::from(cursor.offset > 0);
                let is_long = cursor.offset > MERGED_CHUNK_BYTES_MAX as u64;
                self.summary.resumes_inside_long += u64::from(is_long);
                let voided = cursor
                    .epoch
                    .and_then(|epoch| record.voided_from(Some(epoch)));
                let honest = voided.filter(|from| cursor.seq >= *from);
                if resync != honest {
                    return Err(format!(
                        "{cursor:?} is void from {honest:?}, not {resync:?}"
                    ));
                }
                let Some(view) = client.views.get_mut(&session) else {
                    return Err("let back into a session that it does not follow".to_owned());
                };
                // What the old stream left unfinished comes again.
                view.cut();
                if let Some(from) = resync {
                    self.summary.resyncs += 1;
                    view.drop_from(from);
                }
            }
        }
        if let Some(view) = client.views.get_mut(&session) {
            view.token = token_in(result).or_else(|| view.token.take());
        }
        Ok(())
    }

    fn on_prompt_end(
        &mut self,
        at: usize,
        session: SessionId,
        prompt: &str,
        frame: &Value,
    ) -> Verdict {
        let error = &frame["error"];
        let code = error["code"].as_i64();
        if matches!(code, Some(-32010 | -32012 | -32002)) {
            // Not taken; it may be sent again.
            let line = self.clients[at].line.as_mut();
            if let Some(line) = line.filter(|_| code == Some(-32002)) {
                line.left(session);
            }
            return Ok(());
        }
        self.read(session)?;
        let client = &self.clients[at];
        let record = self.records.get(&session).ok_or("no such session")?;
        // Who leaves while a turn goes on that another connection started is let off, however it ends.
        let line = client.line.as_ref();
        let is_let_off = frame["result"]["stopReason"] == "cancelled"
            && line.is_some_and(|line| line.is_leaving(session) && !line.fresh.contains(prompt));
        let Some((seq, end)) = record.end_of(prompt) else {
            return match is_let_off {
                true => Ok(()),
                false => Err("a prompt was answered whose turn has not ended".to_owned()),
            };
        };
        let view = client.views.get(&session);
        if is_let_off && view.is_some_and(|view| !view.has_passed(seq)) {
            return Ok(());
        }
        let told = match (&end, frame["result"]["stopReason"].as_str(), code) {
            (End::Stopped(reason), Some(told), None) => serde_json::json!(reason) == told,
            (End::Dropped, Some(told), None) => told == "cancelled",
            (End::Failed(kind), None, Some(_)) => error["data"]["kind"] == kind.as_str(),
            (End::Interrupted, None, Some(_)) => error["data"]["kind"] == "interrupted",
            _ => false,
        };
        if !told {
            return Err(format!(
                "the prompt ended as {end:?}, its client was told otherwise"
            ));
        }
        if client.is_inside(session)
            && let Some(view) = client.views.get(&session)
        {
            let own = client.own.get(&session).cloned().unwrap_or_default();
            view.check(record, client.turns, &own, seq)
                .map_err(|why| format!("answered before all was shown: {why}"))?;
        }
        self.summary.answered += 1;
        if let Some(prompt) = self.prompts.get_mut(prompt) {
            self.summary.repeated += u64::from(prompt.end.is_some());
            match prompt.end.replace(end.clone()) {
                Some(before) if before != end => {
                    return Err(format!("the prompt ended as {before:?} and as {end:?}"));
                }
                Some(_) | None => {}
            }
        }
        Ok(())
    }
}

fn token_in(result: &Value) -> Option<String> {
    let token = result["_meta"]["fastness"]["resumeToken"].as_str();
    token.map(ToOwned::to_owned)
}
