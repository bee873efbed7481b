// A curious mind: a place it hardly knows is worth a look, whatever the schedule says.

@new_place
+!act : visits(V) & V < 20 & .random(X) & X < 0.7 <- .explore.

@wonder
+!act : epsilon(E) & .random(X) & X < E <- .explore.

@trust
+!act <- .exploit.
