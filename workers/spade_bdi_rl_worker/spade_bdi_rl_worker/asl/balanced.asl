// The default mind: explores as the schedule says, exploits what it has learned, and falls back
// on the best policy it has known when the coach says that things have gone wrong.
//
// The body keeps these beliefs up to date at every step:
//   state(S) episode(N) step(T) visits(V) value(Q) last_reward(R) epsilon(E)
//   success_rate(R) best_rate(B)   and, once there is one, known_plan(B)
// The coach's newest word is advice(explore), advice(exploit) or advice(retreat).

@fall_back
+!act : advice(retreat) & known_plan(_) & .random(X) & X < 0.8 <- .retreat.

@settle
+!act : advice(exploit) & epsilon(E) & .random(X) & X >= E / 2 <- .exploit.

@wonder
+!act : epsilon(E) & .random(X) & X < E <- .explore.

@trust
+!act <- .exploit.
