# What a form version must be before it is published, promoted or restored: a policy to begin with.
#
# It is read from [forms] policy_dir, asked for `allow` and `deny`, and believed only once it denied a bad form and an empty
# document and allowed a good form. `maple-router policy test` tries it; `opa test` works, too (files named *_test.rego).
# What `input` has is in src/forms/policy/mod.rs: every key is always there, an absent value is null.
package maple.publish

# OPA from 0.59 on reads this file as the router does.
import rego.v1

# Mail of one form goes to at most so many people; a list with more belongs on a mailing list.
max_recipients := 20

# Denied, unless. Without this line a form that nothing is known about would be undefined, and the policy away.
default allow := false

allow if {
	complete
	count(deny) == 0
}

# A rule about a missing key is undefined and denies nothing: so each key that is read below is demanded here first, with its
# type. Who adds a rule that reads another key adds the key.
default complete := false

complete if {
	input.v == 1
	input.command in {"publish", "promote", "restore"}
	is_string(input.version.author)
	is_string(input.version.source)
	is_array(input.actions)
	every action in input.actions {
		is_number(action.action_order)
		is_array(action.destinations)
		every destination in action.destinations {
			is_string(destination.address)
			is_string(destination.domain)
		}
	}
	is_array(input.templates)
	every template in input.templates {
		is_string(template.id)
		is_string(template.body_html)
	}
	is_array(input.samples)
	every sample in input.samples {
		is_string(sample.name)
	}
	is_array(input.limits.allowed_destination_domains)
	every domain in input.limits.allowed_destination_domains {
		is_string(domain)
	}
}

# Reasons are for the form's owner: what is wrong, where, and what to do. None is about a document that is not complete: its
# keys may be of any type.

deny contains "The version could not be judged, because its document is not complete. This is the router's fault; tell its operators." if {
	not complete
}

deny contains "The form has no action, so nobody would get what people send. Add one." if {
	complete
	count(input.actions) == 0
}

deny contains "The version has no author. Load it again, saying who made it." if {
	complete
	trim_space(input.version.author) == ""
}

deny contains "The form has no sample, so nobody has seen its mails. Add one." if {
	complete
	# What the tables had has no samples.
	input.version.source != "adopted"
	count(input.samples) == 0
}

deny contains message if {
	complete
	count(recipients) > max_recipients
	message := sprintf("The form writes to %d people, and %d are the most. Use a mailing list.", [count(recipients), max_recipients])
}

deny contains message if {
	complete
	count(allowed_domains) > 0
	some action in input.actions
	some destination in action.destinations
	not lower(destination.domain) in allowed_domains
	# The domain alone: reasons are kept, and shown to more people than the form.
	message := sprintf(
		"Action %v writes to the domain %s, and mail may not go there. Use an address of another domain.",
		[action.action_order, destination.domain],
	)
}

deny contains message if {
	complete
	some template in input.templates
	regex.match(`(?i)<\s*script`, template.body_html)
	message := sprintf("Template %s has a script in its HTML, which mail programs do not run and filters refuse. Remove it.", [template.id])
}

# In attributes and styles that link or load; a DOCTYPE or xmlns names http: addresses that nobody opens.
deny contains message if {
	complete
	some template in input.templates
	regex.match(`(?i)(href|src|srcset|action|background|poster)\s*=\s*["']?\s*http:|url\(\s*["']?\s*http:`, template.body_html)
	message := sprintf("Template %s has a link or picture that begins with http: in its HTML. Use https:.", [template.id])
}

# Distinct, since one person may be in several actions.
recipients := {lower(destination.address) |
	some action in input.actions
	some destination in action.destinations
}

# Empty: any.
allowed_domains := {lower(domain) | some domain in input.limits.allowed_destination_domains}
