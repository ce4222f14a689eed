//! Questions of the agent's to the person.

use super::check;

#[test]
fn d_05_the_first_answer_is_the_outcome_of_the_call_that_asked() {
    check(
        "
prompt hello
    notice
    session.updated
    user.message hello
    turn.started 1
propose ask_user:c1
    tool.use c1
    question.asked c1
answer answer_2
    question.answered Answered blue
    tool.result c1 Completed
answer answer_1
    rejected: its time has passed
propose ask_user:c2
    tool.use c2
    question.asked c2
say neither
    question.answered Answered neither
    tool.result c2 Completed
propose ask_user:c3
    tool.use c3
    question.asked c3
answer later
    question.answered Later
    tool.result c3 Completed
end
    result EndTurn
",
    );
}

#[test]
fn d_05_whoever_does_not_answer_declines() {
    check(
        "
prompt hello
    notice
    session.updated
    user.message hello
    turn.started 1
propose ask_user:c1
    tool.use c1
    question.asked c1
answer decline
    question.answered Declined
    tool.result c1 Denied
propose ask_user:c2
    tool.use c2
    question.asked c2
dismiss
    question.answered Declined
    tool.result c2 Denied
propose ask_user:c3
    tool.use c3
    question.asked c3
say   \x20
    question.answered Declined
    tool.result c3 Denied
propose ask_user:c4
    tool.use c4
    question.asked c4
unable
    question.answered Declined
    tool.result c4 Denied
propose ask_user:c5
    tool.use c5
    question.asked c5
expire
    question.answered Expired
    tool.result c5 Denied
",
    );
}

#[test]
fn d_05_a_question_is_asked_in_every_mode_and_ends_with_its_turn() {
    check(
        "
mode plan
    mode.changed plan
prompt hello
    notice
    session.updated
    user.message hello
    turn.started 1
propose ask_user:c1
    tool.use c1
    question.asked c1
cancel
    question.answered Cancelled
end-cancelled
    tool.result c1 Cancelled
    result Cancelled
mode bypass
    mode.changed bypass
prompt again
    user.message again
    turn.started 2
propose ask_user:c2 ask_user:c3!
    tool.use c2
    tool.use c3
    question.asked c2
    tool.result c3 Denied
interrupt
    question.answered Cancelled
    tool.result c2 NotRun
    turn.interrupted 2
",
    );
}
