// The coach: an agent of its own that hears report(Episode, SuccessRate, BestRate) from the learner
// over XMPP and answers each with one word of advice.

@lost_it
+report(N, R, B)[source(S)] : B > 0.3 & R < B - 0.25 <- .send(S, tell, advice(retreat)).

@going_well
+report(N, R, B)[source(S)] : R >= 0.6 <- .send(S, tell, advice(exploit)).

@keep_looking
+report(N, R, B)[source(S)] <- .send(S, tell, advice(explore)).
