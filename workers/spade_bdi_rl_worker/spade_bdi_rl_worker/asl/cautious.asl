// A careful mind: it leaves its known plan only where it has experience, and returns to the plan
// by itself as soon as it wins clearly less than it once did.

falling :- success_rate(R) & best_rate(B) & R < B - 0.2.

@return_home
+!act : falling & known_plan(_) <- .retreat.

@strange_place
+!act : known_plan(_) & visits(V) & V < 3 & .random(X) & X < 0.5 <- .retreat.

@wonder
+!act : epsilon(E) & .random(X) & X < E <- .explore.

@trust
+!act <- .exploit.
